"""What the container files say, and what must hold of docker-compose.yml: a rule answers with what is wrong."""

import re
import shlex
from pathlib import Path

import yaml
from compose_spec import parse_duration

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}
# Their images start as somebody else than root by themselves.
USERS_OF_IMAGES = {"prom/prometheus": "nobody", "grafana/grafana": "472", "grafana/k6": "12345"}


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def compose():
    return yaml.safe_load(text("docker-compose.yml"))


def dockerfile():
    """The instructions, with what follows each: `RUN` and its command as one line."""
    lines = [line for line in text("Dockerfile").splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def stages():
    """The instructions of each stage."""
    found = []
    for name, rest in dockerfile():
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def only(stage, name):
    """What follows the one instruction of this name."""
    (rest,) = [rest for instruction, rest in stage if instruction == name]
    return rest


def copied():
    """What the build takes from the repository."""
    sources = []
    for name, rest in dockerfile():
        if name == "COPY" and not rest.startswith("--from="):
            sources += rest.split()[:-1]
    return sources


def is_ignored(path, rules=None):
    """Whether Docker leaves a file or a folder out of the context: the last line of .dockerignore that fits decides."""
    lines = [line.strip() for line in (rules or text(".dockerignore")).splitlines()]
    ignored = False
    for line in lines:
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        wanted = re.compile(re.escape(pattern).replace(r"\*", "[^/]*") + "(/.*)?")
        if wanted.fullmatch(path):
            ignored = not line.startswith("!")
    return ignored


def redis_settings(conf):
    """Settings of a redis.conf by name."""
    lines = (shlex.split(line, comments=True) for line in conf.splitlines())
    return {words[0]: words[1:] for words in lines if words}


def bytes_of(size):
    number, unit = re.fullmatch(r"(\d+)([kmg])b?", str(size)).groups()
    return int(number) * SIZES[unit]


def environment(service):
    """What the process has: of the image, if it is ours, and of docker-compose.yml."""
    ours = dict(word.split("=", 1) for word in shlex.split(only(stages()[-1], "ENV"))) if "build" in service else {}
    return ours | service.get("environment", {})


def mounts(service):
    """(source, target, whether it is read-only) of each volume; the source of an anonymous one is None."""
    for volume in service.get("volumes", []):
        if isinstance(volume, dict):
            yield volume["source"], volume["target"], volume.get("read_only", False)
        else:
            source, target, *mode = volume.split(":") if ":" in volume else (None, volume)
            yield source, target, mode == ["ro"]


def source_of(service, path):
    """The file of the repository that a container sees at this path."""
    for source, target, _ in mounts(service):
        if source and source.startswith("./") and (path + "/").startswith(target + "/"):
            return ROOT / source / path.removeprefix(target).lstrip("/")
    raise AssertionError(f"nothing of the repository is at {path}")


def ends_by_itself(service):
    return service.get("restart") == "no"


# --- Rules -----------------------------------------------------------------------------------------------------------


def images_are_pinned(file):
    for name, service in file["services"].items():
        if "build" not in service and not re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]):
            yield f"{name}: {service['image']}"


def ports_are_on_loopback(file):
    taken = set()
    for name, service in file["services"].items():
        for port in service.get("ports", []):
            place = re.fullmatch(r"127\.0\.0\.1:(\d+):\d+", str(port))
            if not place or place[1] in taken:
                yield f"{name}: {port}"
            else:
                taken.add(place[1])


def services_are_guarded(file):
    wanted = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    unwanted = {"privileged", "cap_add", "network_mode", "pid", "ipc", "userns_mode", "devices"}
    for name, service in file["services"].items():
        yield from (f"{name}: {key}" for key, value in wanted.items() if service.get(key) != value)
        yield from (f"{name}: {key}" for key in unwanted & set(service))
        if "mem_limit" not in service:
            yield f"{name}: mem_limit"
        if service.get("restart") not in ("unless-stopped", "no"):
            yield f"{name}: restart"


def nobody_is_root(file):
    for name, service in file["services"].items():
        user = str(service.get("user", ""))
        if "build" in service:
            user = user or only(stages()[-1], "USER")
        else:
            user = user or USERS_OF_IMAGES.get(service["image"].split(":")[0], "root")
        if re.match(r"(0|root)?(:|$)", user):
            yield f"{name}: {user or 'root'}"


def health_is_checked(file):
    for name, service in file["services"].items():
        check = service.get("healthcheck", {})
        if not (ends_by_itself(service) or "build" in service or check.get("test", [""])[0] == "CMD"):
            yield f"{name}: no check"
    for name, service in file["services"].items():
        for other, how in service.get("depends_on", {}).items():
            if how != {"condition": "service_healthy"} or ends_by_itself(file["services"][other]):
                yield f"{name}: does not wait for {other}"


def redis_is_reached_by_stockade_alone(file):
    on_store = {name for name, service in file["services"].items() if "store" in service["networks"]}
    if on_store != {"stockade", "redis"} or file["services"]["redis"]["networks"] != ["store"]:
        yield f"store: {sorted(on_store)}"
    if not file["networks"]["store"].get("internal") or "ports" in file["services"]["redis"]:
        yield "store: others come in"


def networks_and_volumes_are_declared(file):
    for name, service in file["services"].items():
        named = {source for source, _, _ in mounts(service) if source and not source.startswith("./")}
        for missing in set(service["networks"]) - set(file["networks"]) | named - set(file["volumes"]):
            yield f"{name}: {missing}"


def files_are_mounted_read_only_and_exist(file):
    for name, service in file["services"].items():
        for source, target, read_only in mounts(service):
            if not source or not source.startswith("./"):
                continue
            if not read_only:
                yield f"{name}: {target} can be written"
            # The load tests come later: until then their service says that the folder is missing.
            if not (ROOT / source).exists():
                yield f"{name}: {source} is not there"


def redis_has_twice_its_maxmemory(file):
    of_file = redis_settings(text("redis.conf"))["maxmemory"][0]
    for name, service in file["services"].items():
        command = service.get("command", [])
        if "valkey-server" not in command:
            continue
        limit = command[command.index("--maxmemory") + 1] if "--maxmemory" in command else of_file
        if bytes_of(service["mem_limit"]) != 2 * bytes_of(limit):
            yield f"{name}: maxmemory {limit} of {service['mem_limit']}"


def stopping_takes_no_longer_than_it_may(file):
    service = file["services"]["stockade"]
    drain = int(environment(service).get("STOCKADE_DRAIN_SECONDS", 10))
    if parse_duration(service.get("stop_grace_period", "10s"))<= drain:
        yield f"stockade: {service.get('stop_grace_period')}, and it drains for {drain} s"


RULES = [images_are_pinned, ports_are_on_loopback, services_are_guarded, nobody_is_root, health_is_checked,
         redis_is_reached_by_stockade_alone, networks_and_volumes_are_declared, files_are_mounted_read_only_and_exist,
         redis_has_twice_its_maxmemory, stopping_takes_no_longer_than_it_may]
