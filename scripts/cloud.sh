# What scripts/local-cloud and scripts/deploy share; sourced after lib.sh.
# shellcheck shell=bash

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dsql-fabric
# shellcheck disable=SC2034
default_stack=dsql-fabric
export SAM_CLI_TELEMETRY=0

# Puts the tools of FILE (default: scripts/requirements.txt) on PATH, from a
# virtual environment that is made once for each content of that file.
tools() {
    local wanted=${1:-$root/scripts/requirements.txt} sum venv
    command -v python3 >/dev/null || die "python3 is needed"
    sum=$(sha256sum <"$wanted" | cut -c1-12)
    venv=$cache/venv/$(basename "$wanted" .txt)-$sum
    if [ ! -e "$venv/complete" ]; then
        say "installing the tools of $(basename "$wanted") (once, a minute or two)"
        rm -rf "$venv"
        mkdir -p "$cache/venv"
        python3 -c 'import ensurepip' 2>/dev/null || install_venv
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" ||
            die "pip could not install $wanted; see above"
        touch "$venv/complete"
    fi
    export PATH=$venv/bin:$PATH
}

# Debian keeps venv apart from python3.
install_venv() {
    command -v apt-get >/dev/null || die "python3 has no venv module: install it"
    say "installing python3-venv"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv
}

# What `sam build` runs beside cargo.
need_build_tools() {
    local tool
    for tool in cargo make cc strip; do
        command -v "$tool" >/dev/null || die "'$tool' is needed to build the functions"
    done
}

# sam keeps its build beside the template, also when called from elsewhere.
sam_build() {
    say "building the functions for $FABRIC_ARCHITECTURE"
    sam build --template-file "$root/template.yaml" --build-dir "$root/.aws-sam/build" \
        --parameter-overrides "Architecture=$FABRIC_ARCHITECTURE" >"$1" 2>&1 || {
        tail -n 40 "$1" >&2
        die "sam build failed; all of it is in $1"
    }
    wc -c "$root"/.aws-sam/build/*/bootstrap |
        awk '$2 != "total" { n = split($2, path, "/"); printf "  %s: %.1f MB\n", path[n - 1], $1 / 1e6 }'
}

# sam_deploy LOG STACK REGION KEY=VALUE…
sam_deploy() {
    local log=$1 stack=$2 region=$3 pair overrides=()
    shift 3
    # sam splits at spaces, such as those of a cron expression.
    for pair in "$@"; do
        overrides+=("${pair%%=*}=\"${pair#*=}\"")
    done
    say "deploying $stack to $region"
    # On the disk before the account is asked, for `fabric fleet clean --all`.
    cloud intend "$region" "$stack"
    sam deploy --template-file "$root/.aws-sam/build/template.yaml" \
        --stack-name "$stack" --region "$region" --resolve-s3 --s3-prefix "$stack" \
        --capabilities CAPABILITY_NAMED_IAM --tags "dsql-fabric:stack=$stack" \
        --no-confirm-changeset --no-fail-on-empty-changeset --no-progressbar \
        --parameter-overrides "${overrides[@]}" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        die "sam deploy to $region failed; all of it is in $log"
    }
    cloud created "$region" "$stack"
}

cloud() { python3 "$root/scripts/cloud.py" "$@"; }
