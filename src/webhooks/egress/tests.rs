use super::*;

const STRICT: Egress = Egress { loopback: false, private: false };
const LOCAL: Egress = Egress { loopback: true, private: false };
const OPEN: Egress = Egress { loopback: false, private: true };

fn judge(egress: Egress, url: &str) -> Result<(), Forbidden> {
    egress.judge_url(&url.parse().unwrap_or_else(|bad| panic!("{url}: {bad}")))
}

/// Forty spellings of what must not be called; `allowed` says by whom all the same.
const FORBIDDEN: [(&str, &str); 40] = [
    ("https://127.0.0.1/", "local open"),
    ("https://127.1/", "local open"),
    ("https://2130706433/", "local open"),
    ("https://0x7f000001/", "local open"),
    ("https://0177.0.0.1/", "local open"),
    ("https://0x7f.1/", "local open"),
    ("https://[::1]/", "local open"),
    ("https://[::ffff:127.0.0.1]/", "local open"),
    ("https://[::ffff:7f00:1]/", "local open"),
    ("https://[::127.0.0.1]/", "local open"),
    ("https://[64:ff9b::7f00:1]/", "local open"),
    ("https://[2002:7f00:1::]/", "local open"),
    ("https://localhost/", "local open"),
    ("https://LOCALHOST./", "local open"),
    ("http://localhost:9000/", "local open"),
    ("https://10.0.0.1/", "open"),
    ("https://172.16.0.1/", "open"),
    ("https://172.31.255.255/", "open"),
    ("https://192.168.1.1/", "open"),
    ("https://3232235777/", "open"),
    ("https://169.254.1.1/", "open"),
    ("https://100.64.0.1/", "open"),
    ("https://198.18.0.1/", "open"),
    ("https://[fc00::1]/", "open"),
    ("https://[fe80::1]/", "open"),
    ("https://[::ffff:10.0.0.1]/", "open"),
    ("https://[64:ff9b:1:a9fe:a9:fe00:808:808]/", ""),
    ("http://example.com/", "open"),
    ("http://93.184.215.14/", "open"),
    ("https://169.254.169.254/latest/meta-data/", ""),
    ("https://0xa9fea9fe/", ""),
    ("https://[::ffff:169.254.169.254]/", ""),
    ("https://[fd00:ec2::254]/", ""),
    ("https://[fe80::a9fe:a9fe]/", ""),
    ("https://100.100.100.200/", ""),
    ("https://0.0.0.0/", ""),
    ("https://[4000::1]/", ""),
    ("https://224.0.0.1/", ""),
    ("https://255.255.255.255/", ""),
    ("https://[ff02::1]/", ""),
];

#[test]
fn forty_targets_are_forbidden_unless_somebody_allowed_them() {
    for (url, allowed) in FORBIDDEN {
        assert!(judge(STRICT, url).is_err(), "{url}");
        assert_eq!(judge(LOCAL, url).is_ok(), allowed.contains("local"), "{url}");
        assert_eq!(judge(OPEN, url).is_ok(), allowed.contains("open"), "{url}");
    }
}

#[test]
fn public_targets_are_allowed() {
    for url in [
        "https://example.com/hook?a=1",
        "https://1.1.1.1/",
        "https://172.32.0.1/",
        "https://100.128.0.1/",
        "https://[2606:4700:4700::1111]/",
        "https://[::ffff:1.1.1.1]/",
        "https://[64:ff9b::101:101]/",
        "https://localhost.example.com/",
    ] {
        for egress in [STRICT, LOCAL, OPEN] {
            assert_eq!(judge(egress, url), Ok(()), "{url}");
        }
    }
}

#[test]
fn what_is_no_url_of_ours_is_none() {
    for bad in ["ftp://a/", "https://", "https://u:p@a/", "https://u@a/", "https://a/#x", "a", "https://a b/"]
    {
        assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
    }
    assert!(format!("https://a/{}", "x".repeat(2_048)).parse::<WebhookUrl>().is_err());
}
