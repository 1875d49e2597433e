#!/usr/bin/env bash
# What is made from the handlers and committed: openapi.json, and from that the types of both clients.
#
#   openapi.sh write   make all of it anew
#   openapi.sh check   fail if the types are not those of openapi.json (that it is what is served is a test's affair)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly typescript=clients/typescript/src/schema.ts
readonly python=clients/python/src/stockade_client/schema.py

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

generate() {
    clients/typescript/node_modules/.bin/openapi-typescript "$PWD/$1" --root-types --root-types-no-schema-prefix -o "$new/schema.ts" >/dev/null
    .tools/python/bin/datamodel-codegen --input "$1" --input-file-type openapi --output "$new/schema.py" \
        --output-model-type typing.TypedDict --target-python-version 3.11 --use-standard-collections --use-union-operator \
        --enum-field-as-literal all --no-use-closed-typed-dict --disable-timestamp --use-double-quotes --formatters builtin
}

case "${1:-}" in
write)
    cargo run --quiet --locked -- openapi >"$new/openapi.json"
    mv "$new/openapi.json" openapi.json
    generate openapi.json
    mv "$new/schema.ts" $typescript
    mv "$new/schema.py" $python
    ;;
check)
    generate openapi.json
    for file in $typescript $python; do
        cmp "$new/$(basename $file)" $file || {
            echo "$file is not made from openapi.json: run \`make openapi\` and commit what it changes" >&2
            exit 1
        }
    done
    ;;
*)
    echo "usage: openapi.sh write | check" >&2
    exit 1
    ;;
esac
