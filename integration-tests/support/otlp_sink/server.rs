//! The sink's sockets: connections, requests, answers.

use std::convert::Infallible;
use std::future::pending;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use stepline::model::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::wire::{self, Reply};
use super::{Behaviour, Received, Shared, Wire};

/// The thread.
pub(super) fn run(listeners: [TcpListener; 2], tls: Option<ServerConfig>, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let [http, grpc] = listeners;
        let tls = |protocol: &[u8]| {
            let mut config = tls.clone()?;
            config.alpn_protocols = vec![protocol.to_vec()];
            Some(TlsAcceptor::from(Arc::new(config)))
        };
        tokio::spawn(accept(http, tls(b"http/1.1"), Arc::clone(&shared), false));
        tokio::spawn(accept(grpc, tls(b"h2"), shared, true));
        let _ = stopped.await;
    });
    // Closes everything that is open, in whatever state it is.
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>, is_grpc: bool) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        shared.connected();
        let shared = Arc::clone(&shared);
        match tls.clone() {
            None => drop(tokio::spawn(serve_plain(stream, shared, is_grpc))),
            Some(tls) => drop(tokio::spawn(async move {
                // Who does not get through the handshake is nobody.
                if let Ok(stream) = tls.accept(stream).await {
                    serve(stream, shared, is_grpc);
                }
            })),
        }
    }
}

async fn serve_plain(mut stream: TcpStream, shared: Arc<Shared>, is_grpc: bool) {
    if !is_grpc && begins_http2(&stream).await {
        // What Go's server answers to one who speaks HTTP/2 without being asked to.
        shared.fault("HTTP/2 on the port of HTTP/1.1".to_owned());
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        return;
    }
    serve(stream, shared, is_grpc);
}

fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, shared: Arc<Shared>, is_grpc: bool) {
    let task = Arc::new(OnceLock::new());
    let of_service = Arc::clone(&task);
    let service = service_fn(move |request| answer(request, Arc::clone(&shared), is_grpc, Arc::clone(&of_service)));
    let io = TokioIo::new(stream);
    let connection = tokio::spawn(async move {
        let result = if is_grpc {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
        } else {
            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
        };
        // A client that goes away because it got no answer is none of the sink's business.
        drop(result);
    });
    let _ = task.set(connection.abort_handle());
}

async fn begins_http2(stream: &TcpStream) -> bool {
    let mut start = [0; 3];
    matches!(stream.peek(&mut start).await, Ok(3) if &start == b"PRI")
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    is_grpc: bool,
    task: Arc<OnceLock<AbortHandle>>,
) -> Result<Response<Reply>, Infallible> {
    let (head, body) = request.into_parts();
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let header = |name: &str| headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.as_str());
    let path = head.uri.path().to_owned();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            shared.fault(format!("a body broke off: {error}"));
            return Ok(wire::plain(400, "a body broke off"));
        }
    };
    let wire = match (is_grpc, header("content-type")) {
        (true, _) => Wire::Grpc,
        (false, "application/json") => Wire::HttpJson,
        (false, _) => Wire::HttpProtobuf,
    };
    let is_known_type = matches!(header("content-type"), "application/json" | "application/x-protobuf" | "application/grpc");
    let Some(signal) = signal_of(&path, is_grpc).filter(|_| head.method == "POST" && is_known_type) else {
        shared.fault(format!("{} {path} {}", head.method, header("content-type")));
        return Ok(if is_grpc { wire::grpc_status(12, "unknown service", None) } else { wire::plain(404, "404 page not found") });
    };
    let encoding = if is_grpc { header("grpc-encoding") } else { header("content-encoding") };
    let (body, decoded) = match wire::decode(signal, wire, encoding, &bytes) {
        Ok(decoded) => decoded,
        Err(why) => {
            shared.fault(format!("{path}: {why}"));
            return Ok(if is_grpc { wire::grpc_status(3, &why, None) } else { wire::failure(400, &why, wire, None) });
        }
    };
    let received = Received { at: Instant::now(), wire, path, headers, body, request: decoded, behaviour: Behaviour::Accept };
    Ok(match shared.receive(received) {
        Behaviour::Accept => wire::success(signal, wire, 0, ""),
        Behaviour::Partial { rejected, message } => wire::success(signal, wire, rejected, &message),
        Behaviour::Fail { status, message, retry_after } if is_grpc => {
            wire::grpc_status(wire::grpc_code(status), &message, retry_after.and_then(|seconds| seconds.parse().ok()))
        }
        Behaviour::Fail { status, message, retry_after } => wire::failure(status, &message, wire, retry_after.as_deref()),
        Behaviour::Redirect(to) => wire::redirect(&to),
        Behaviour::BlackHole => pending().await,
        Behaviour::Slow(delay) => {
            tokio::time::sleep(delay).await;
            wire::success(signal, wire, 0, "")
        }
        Behaviour::CloseMidResponse => wire::broken(wire),
        Behaviour::AcceptAndClose => {
            tokio::spawn(async move {
                // The answer has to get out first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                if let Some(task) = task.get() {
                    task.abort();
                }
            });
            wire::success(signal, wire, 0, "")
        }
    })
}

/// Which signal a path is for: any base may stand before it.
fn signal_of(path: &str, is_grpc: bool) -> Option<Signal> {
    Signal::ALL.into_iter().find(|signal| {
        if is_grpc {
            let name = signal.name();
            let service = if *signal == Signal::Traces { "trace" } else { name };
            let mut title = service.to_owned();
            title[..1].make_ascii_uppercase();
            path == format!("/opentelemetry.proto.collector.{service}.v1.{title}Service/Export")
        } else {
            path.ends_with(&format!("/v1/{}", signal.name())) || path == format!("/own-{}", signal.name())
        }
    })
}
