//! A connection to an endpoint: address, proxy, TLS. Remembers the first bytes that come back, which tell what the server speaks.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::hints::{self, Trouble, Wire};
use super::tls::TlsConfigs;
use crate::config::{Endpoint, Proxy, Url};

/// Bytes of the beginning that are remembered: a frame's head, or the start of a status line.
const FIRST_BYTES: usize = 16;
/// The most that a proxy may say before the tunnel stands.
const MOST_PROXY_ANSWER: usize = 8 << 10;

/// Bytes there and back.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// What hyper talks through.
pub(super) type Io = TokioIo<Watched>;

/// What is known of a connection beside the answers: the first bytes that came back, and how it ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Rc<RefCell<Known>>);

#[derive(Debug, Default)]
struct Known {
    first: Vec<u8>,
    end: Option<Trouble>,
}

impl Watch {
    /// Runs the connection to its end. What goes wrong on it goes wrong for the request that is on it, which is told less, though.
    pub(super) async fn over(self, connection: impl Future<Output = hyper::Result<()>>) {
        if let Err(error) = connection.await {
            self.0.borrow_mut().end.get_or_insert_with(|| Trouble::of(&error));
        }
    }

    /// Why a request got no answer, for people.
    pub(super) fn trouble(&self, wire: Wire, url: &Url, error: &hyper::Error) -> String {
        let known = self.0.borrow();
        let of_request = Trouble::of(error);
        if let Some(tls) = [Some(&of_request), known.end.as_ref()].into_iter().flatten().find(|trouble| trouble.is_tls) {
            return tls.text.clone();
        }
        hints::mixed_up(wire, &known.first, url).unwrap_or_else(|| match &known.end {
            Some(end) if error.is_canceled() => end.text.clone(),
            _ => of_request.text,
        })
    }
}

/// A stream that is watched.
pub(super) struct Watched {
    stream: Box<dyn Stream>,
    watch: Watch,
    held_back: Option<io::Error>,
}

impl Watched {
    /// A write that fails ends the connection, and with it the reading: what the server said before it closed its end lies there
    /// unread, and tells what it speaks. So the failure is held back until that has been read.
    fn held<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Box<dyn Stream>>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let error = match self.held_back.take() {
            Some(error) => error,
            None => match write(Pin::new(&mut self.stream), context) {
                Poll::Ready(Err(error)) => error,
                other => return other,
            },
        };
        let nothing_yet = self.watch.0.borrow().first.is_empty();
        let mut bytes = [0; FIRST_BYTES];
        if nothing_yet && Pin::new(&mut *self).poll_read(context, &mut ReadBuf::new(&mut bytes)).is_pending() {
            self.held_back = Some(error);
            return Poll::Pending;
        }
        Poll::Ready(Err(error))
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let mut known = self.watch.0.borrow_mut();
        if let Poll::Ready(Err(error)) = &result {
            // On its way up HTTP/2 makes a mere text of it.
            known.end = Some(Trouble::of(error));
        }
        let room = FIRST_BYTES.saturating_sub(known.first.len());
        if room > 0 {
            known.first.extend(buffer.filled().iter().skip(before).take(room));
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.held(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.held(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    /// One after the other. The system's call for several at once would raise SIGPIPE on a closed connection, which ends a process
    /// that has not switched it off; the one for a single one does not.
    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let first = bytes.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        self.poll_write(context, first)
    }

    /// So that hyper does not copy bodies to have them in one piece.
    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Opens a connection.
///
/// # Errors
/// Why it cannot be had, for people.
pub(super) async fn connect(endpoint: &Endpoint, url: &Url, wire: Wire, tls: &TlsConfigs) -> Result<(Io, Watch), String> {
    let tcp = match &endpoint.proxy {
        None => tcp(url, endpoint.timeout).await?,
        Some(proxy) => {
            let stream = tcp(&proxy.url, endpoint.timeout).await.map_err(|why| format!("the proxy {}: {why}", proxy.url.shown()))?;
            // Plain HTTP goes through the proxy as it is; everything else through a tunnel.
            if url.secure || wire == Wire::Grpc { tunnel(stream, proxy, url).await? } else { stream }
        }
    };
    // Requests are written in one go; waiting for more would only delay the answer.
    let _ = tcp.set_nodelay(true);
    let stream: Box<dyn Stream> = if url.secure {
        let config = tls.of(endpoint, wire)?;
        let name = ServerName::try_from(url.host.clone()).map_err(|_| format!("{:?} is no name that a certificate can hold", url.host))?;
        let stream = TlsConnector::from(config).connect(name, tcp).await;
        Box::new(stream.map_err(|error| Trouble::of(&error).text)?)
    } else {
        Box::new(tcp)
    };
    let watch = Watch::default();
    Ok((TokioIo::new(Watched { stream, watch: watch.clone(), held_back: None }), watch))
}

async fn tcp(url: &Url, patience: Duration) -> Result<TcpStream, String> {
    let port = url.port_or_default();
    let addresses: Vec<SocketAddr> = match url.host.parse::<IpAddr>() {
        // Asking the system would take a thread.
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => match tokio::net::lookup_host((url.host.as_str(), port)).await {
            Ok(found) => found.collect(),
            Err(error) => return Err(format!("the host {} cannot be found ({error})", url.host)),
        },
    };
    // An address that swallows everything must leave time for the next one.
    let share = patience / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut trouble = format!("the host {} has no address", url.host);
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => trouble = hints::refused(url),
            Ok(Err(error)) => trouble = format!("{address} cannot be reached: {error}"),
            Err(_) => trouble = format!("{address} does not answer to a connection"),
        }
    }
    Err(trouble)
}

/// Has the proxy connect to the endpoint.
async fn tunnel(mut stream: TcpStream, proxy: &Proxy, url: &Url) -> Result<TcpStream, String> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let target = format!("{host}:{}", url.port_or_default());
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(authorization) = proxy_authorization(proxy) {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    let failed = |what: String| format!("the proxy {}: {what}", proxy.url.shown());
    stream.write_all(request.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
    let mut answer = Vec::new();
    // Byte by byte, so that nothing of what follows is taken.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MOST_PROXY_ANSWER {
            return Err(failed("its answer to CONNECT has no end".to_owned()));
        }
        answer.push(stream.read_u8().await.map_err(|error| failed(error.to_string()))?);
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    if line.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
        Ok(stream)
    } else {
        Err(failed(format!("it answered {:?} to CONNECT", super::answer::shortened(line))))
    }
}

/// `user:password` of the proxy's URL as the value of a header.
pub(super) fn proxy_authorization(proxy: &Proxy) -> Option<String> {
    let user = proxy.url.user.as_ref()?;
    Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user)))
}
