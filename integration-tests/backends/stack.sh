#!/usr/bin/env bash
# Runs the collector, Jaeger and Prometheus of collector-config/ on their default ports until Ctrl-C: `make stack`.
# Data and logs stay in target/stack; remove that folder to begin anew (Jaeger's traces are in memory and go at the end).
set -euo pipefail
# Servers in process groups of their own: Ctrl-C reaches this script alone, which then stops them in order.
set -m

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
programs=$root/target/backends
config=$root/collector-config
data=$root/target/stack

# The variables that collector-config/README.md lists. Prometheus takes its port as a flag.
export COLLECTOR_GRPC_PORT=${COLLECTOR_GRPC_PORT:-4317} COLLECTOR_HTTP_PORT=${COLLECTOR_HTTP_PORT:-4318}
export COLLECTOR_HEALTH_PORT=${COLLECTOR_HEALTH_PORT:-13133}
export JAEGER_OTLP_PORT=${JAEGER_OTLP_PORT:-14317} JAEGER_QUERY_PORT=${JAEGER_QUERY_PORT:-16686}
export JAEGER_QUERY_GRPC_PORT=${JAEGER_QUERY_GRPC_PORT:-16685} JAEGER_HEALTH_PORT=${JAEGER_HEALTH_PORT:-13134}
PROMETHEUS_PORT=${PROMETHEUS_PORT:-9090}
export JAEGER_OTLP_ENDPOINT=${JAEGER_OTLP_ENDPOINT:-127.0.0.1:$JAEGER_OTLP_PORT}
export PROMETHEUS_OTLP_URL=${PROMETHEUS_OTLP_URL:-http://127.0.0.1:$PROMETHEUS_PORT/api/v1/otlp}
export COLLECTOR_STATE_DIR=${COLLECTOR_STATE_DIR:-$data/collector-state}
export COLLECTOR_FILES_DIR=${COLLECTOR_FILES_DIR:-$data/collector-files}

fail() {
  echo "make stack: $*" >&2
  exit 1
}

names=()
pids=()

# The collector was started last and goes first, so that it does not retry towards servers that have gone.
stop() {
  trap - EXIT INT TERM HUP
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
}

start() { # NAME URL PROGRAM ARGUMENT...
  local name=$1 url=$2 tries=0
  shift 2
  "$@" >"$data/$name.log" 2>&1 </dev/null &
  names+=("$name")
  pids+=("$!")
  until curl --silent --fail --noproxy '*' --max-time 2 --output /dev/null "$url"; do
    check_alive
    tries=$((tries + 1))
    ((tries < 300)) || fail "$name does not answer at $url; see $data/$name.log"
    sleep 0.1
  done
}

check_alive() {
  local i
  for i in "${!pids[@]}"; do
    kill -0 "${pids[i]}" 2>/dev/null && continue
    tail -n 15 "$data/${names[i]}.log" >&2
    fail "${names[i]} has ended; the end of $data/${names[i]}.log is above"
  done
}

command -v curl >/dev/null || fail "curl is missing: it asks the servers whether they are ready"
make -s -C "$here"

for port in "$COLLECTOR_GRPC_PORT" "$COLLECTOR_HTTP_PORT" "$COLLECTOR_HEALTH_PORT" "$JAEGER_OTLP_PORT" "$JAEGER_QUERY_PORT" \
  "$JAEGER_QUERY_GRPC_PORT" "$JAEGER_HEALTH_PORT" "$PROMETHEUS_PORT"; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    fail "port $port is in use: another stack or collector? (ports can be changed, see collector-config/README.md)"
  fi
done

mkdir -p "$data"
trap stop EXIT
trap 'echo; echo "stopping"; stop; exit 0' INT TERM HUP

start jaeger "http://127.0.0.1:$JAEGER_HEALTH_PORT/status" "$programs/jaeger" --config "$config/jaeger.yaml"
start prometheus "http://127.0.0.1:$PROMETHEUS_PORT/-/ready" "$programs/prometheus" \
  --config.file="$config/prometheus.yml" --storage.tsdb.path="$data/prometheus" \
  --web.listen-address="127.0.0.1:$PROMETHEUS_PORT" --web.enable-otlp-receiver --enable-feature=exemplar-storage
start collector "http://127.0.0.1:$COLLECTOR_HEALTH_PORT/" "$programs/otelcol" --config "$config/collector.yaml"

cat <<END
ready

  send to      http://127.0.0.1:$COLLECTOR_HTTP_PORT   (OTLP over HTTP; gRPC: http://127.0.0.1:$COLLECTOR_GRPC_PORT)
  Prometheus   http://127.0.0.1:$PROMETHEUS_PORT
  Jaeger API   http://127.0.0.1:$JAEGER_QUERY_PORT/api/v3/services   (no web page in this build; compose.yaml has it)
  files        $COLLECTOR_FILES_DIR/{traces,metrics,logs}.jsonl
  logs         $data/{collector,jaeger,prometheus}.log

  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$COLLECTOR_HTTP_PORT   in the training's environment is all it takes.
  Ctrl-C stops the three.
END

# `sleep` in the background, since bash runs a trap only between commands: so Ctrl-C is answered at once.
while :; do
  sleep 1 &
  wait $! || true
  check_alive
done
