//! What people would use otherwise, each in its own idiom and with a background thread that throws everything away.

use std::hint::black_box;
use std::time::Duration;

use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::prelude::{LocalSpan, Span as FastraceSpan, SpanContext};
use opentelemetry::metrics::{Gauge, Histogram, MeterProvider as _};
use opentelemetry::trace::{Span as _, TraceContextExt, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::layer::SubscriberExt;

use crate::Variant;

const PHASES: [&str; 4] = ["data_wait", "forward", "backward", "optimizer"];

struct NoReporter;

impl Reporter for NoReporter {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        black_box(spans);
    }
}

/// A root a step, phases as local spans under it, properties as text.
pub struct Fastrace;

impl Fastrace {
    pub fn start() -> Self {
        fastrace::set_reporter(NoReporter, Config::default());
        Self
    }
}

impl Variant for Fastrace {
    fn chunk(&self) -> u64 {
        2_000
    }

    fn steps(&mut self, count: u64) {
        for number in 0..count {
            let step = FastraceSpan::root("train.step", SpanContext::random()).with_properties(|| {
                [("step", number.to_string()), ("epoch", "3".to_owned()), ("loss", "0.5".to_owned()), ("learning_rate", "0.001".to_owned())]
            });
            let _guard = step.set_local_parent();
            for phase in PHASES {
                let _phase = LocalSpan::enter_with_local_parent(phase).with_property(|| ("phase", phase));
                black_box(number);
            }
        }
    }

    fn settle(&mut self) {
        fastrace::flush();
    }
}

#[derive(Debug)]
struct NoExporter;

impl SpanExporter for NoExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        black_box(batch);
        Ok(())
    }
}

impl PushMetricExporter for NoExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        black_box(metrics);
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn provider() -> SdkTracerProvider {
    SdkTracerProvider::builder().with_span_processor(BatchSpanProcessor::builder(NoExporter).build()).build()
}

/// Spans that fit into the batch processor's queue of 2,048: beyond it, it drops, which costs less.
const STEPS_IN_THE_QUEUE: u64 = 400;

/// Five spans with attributes, a histogram and a gauge.
pub struct OpenTelemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    _meters: SdkMeterProvider,
    duration: Histogram<f64>,
    loss: Gauge<f64>,
}

impl OpenTelemetry {
    pub fn start() -> Self {
        let provider = provider();
        let tracer = provider.tracer("bench");
        let meters = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(NoExporter).build()).build();
        let meter = meters.meter("bench");
        let (duration, loss) = (meter.f64_histogram("step.duration").build(), meter.f64_gauge("loss").build());
        Self { provider, tracer, _meters: meters, duration, loss }
    }
}

impl Variant for OpenTelemetry {
    fn chunk(&self) -> u64 {
        STEPS_IN_THE_QUEUE
    }

    fn steps(&mut self, count: u64) {
        let labels = [KeyValue::new("run", "wine"), KeyValue::new("rank", 0), KeyValue::new("host", "node-1")];
        for number in 0..count {
            let mut span = self.tracer.start("train.step");
            span.set_attribute(KeyValue::new("step", number as i64));
            span.set_attribute(KeyValue::new("epoch", 3));
            span.set_attribute(KeyValue::new("loss", 0.5));
            span.set_attribute(KeyValue::new("learning_rate", 0.001));
            let step = Context::current_with_span(span);
            for phase in PHASES {
                let mut span = self.tracer.start_with_context(phase, &step);
                span.set_attribute(KeyValue::new("phase", phase));
                black_box(number);
                span.end();
            }
            step.span().end();
            self.duration.record(0.01, &labels);
            self.loss.record(0.5, &labels);
        }
    }

    fn settle(&mut self) {
        self.provider.force_flush().expect("a flush");
    }
}

/// `tracing` spans, turned into OpenTelemetry's by the layer that is made for it.
pub struct Tracing {
    provider: SdkTracerProvider,
    dispatch: tracing::Dispatch,
}

impl Tracing {
    pub fn start() -> Self {
        let provider = provider();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("bench"));
        let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
        Self { provider, dispatch }
    }
}

impl Variant for Tracing {
    fn chunk(&self) -> u64 {
        STEPS_IN_THE_QUEUE
    }

    fn steps(&mut self, count: u64) {
        tracing::dispatcher::with_default(&self.dispatch, || {
            for number in 0..count {
                let step = tracing::info_span!("train.step", step = number, epoch = 3, loss = 0.5, learning_rate = 0.001).entered();
                tracing::info_span!("data_wait", phase = "data_wait").in_scope(|| black_box(number));
                tracing::info_span!("forward", phase = "forward").in_scope(|| black_box(number));
                tracing::info_span!("backward", phase = "backward").in_scope(|| black_box(number));
                tracing::info_span!("optimizer", phase = "optimizer").in_scope(|| black_box(number));
                drop(step);
            }
        });
    }

    fn settle(&mut self) {
        self.provider.force_flush().expect("a flush");
    }
}
