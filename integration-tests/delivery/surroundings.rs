//! Where the application stands: in no runtime, in one of one thread, in one of many; behind a proxy.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use stepline::config::{Environment, Protocol, Settings, resolve};
use stepline::model::Signal;
use stepline::otlp::push::Push;

use super::data::export;
use super::{PROTOCOLS, assert_exact, delivered, finish, to};
use crate::support::otlp_sink::{Behaviour, OtlpSink};

fn whole_life(sink: &OtlpSink, protocol: Protocol) {
    let push = to(sink, protocol);
    Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, 0, 10, 0)));
    let outcome = finish(push);
    assert_exact([10; 3], &outcome, sink);
    assert_eq!(outcome.deliveries, [delivered(10); 3]);
}

#[test]
fn in_no_runtime_and_in_any() {
    for protocol in PROTOCOLS {
        whole_life(&OtlpSink::accepting(), protocol);
        // The one thread of this runtime is blocked all the time: nothing of ours may need it.
        let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
        single.block_on(async { whole_life(&OtlpSink::accepting(), protocol) });
        let push = single.block_on(async { to(&OtlpSink::accepting(), protocol) });
        drop(single);
        drop(push);
    }
}

#[test]
fn a_black_hole_in_a_runtime_of_one_thread() {
    let sink = OtlpSink::start(|_, _| Behaviour::BlackHole);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for protocol in PROTOCOLS {
        let took = runtime.block_on(async {
            let push = to(&sink, protocol);
            push.send(export(Signal::Traces, 0, 10, 0));
            let begin = Instant::now();
            assert_eq!(push.finish(begin + Duration::from_millis(300)).deliveries[0].dropped, 10);
            begin.elapsed()
        });
        assert!(took < Duration::from_millis(800), "{took:?}");
    }
}

#[test]
fn many_threads_may_hand_over() {
    let sink = OtlpSink::accepting();
    let push = to(&sink, Protocol::HttpProtobuf);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let push = &push;
            scope.spawn(move || (0..50).for_each(|batch| push.send(export(Signal::Traces, thread * 1000 + batch * 10, 10, 0))));
        }
    });
    assert_exact([2000, 0, 0], &finish(push), &sink);
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_goes_with_its_owner() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("stepline-push")).count()
    };
    // Other tests have such threads too: this one looks at its own child.
    if std::env::var_os("STEPLINE_TEST_ALONE").is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "delivery::surroundings::the_thread_goes_with_its_owner"])
            .env("STEPLINE_TEST_ALONE", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let sink = OtlpSink::start(|_, _| Behaviour::BlackHole);
    let push = to(&sink, Protocol::HttpProtobuf);
    push.send(export(Signal::Traces, 0, 10, 0));
    assert_eq!(threads(), 1);
    drop(push);
    let begin = Instant::now();
    while threads() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn plain_http_goes_through_a_proxy_as_it_is() {
    let proxy = OtlpSink::accepting();
    let environment = Environment::of([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.invalid:4318/base"),
        ("HTTP_PROXY", &proxy.http_endpoint().replace("http://", "http://user:pass@")),
    ]);
    let push = Push::start(&resolve(&Settings::default(), &environment)).unwrap().unwrap();
    push.send(export(Signal::Traces, 0, 10, 0));
    assert_exact([10, 0, 0], &finish(push), &proxy);
    let request = proxy.requests().remove(0);
    assert_eq!((request.path.as_str(), request.header("host")), ("/base/v1/traces", Some("collector.invalid:4318")));
    assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpwYXNz"));
}

#[test]
fn grpc_goes_through_a_tunnel() {
    let sink = OtlpSink::accepting();
    let (listener, behind) = (TcpListener::bind("127.0.0.1:0").unwrap(), sink.addresses()[1]);
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let mut server = TcpStream::connect(behind).unwrap();
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let _ = std::io::copy(&mut server, &mut client);
        String::from_utf8(request).unwrap()
    });
    let environment = Environment::of([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.invalid:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("ALL_PROXY", proxy.as_str()),
    ]);
    let push = Push::start(&resolve(&Settings::default(), &environment)).unwrap().unwrap();
    push.send(export(Signal::Traces, 0, 10, 0));
    assert_exact([10, 0, 0], &finish(push), &sink);
    drop(sink);
    assert!(asked.join().unwrap().starts_with("CONNECT collector.invalid:4317 HTTP/1.1\r\nHost: collector.invalid:4317\r\n"));
}
