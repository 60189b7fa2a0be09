//! What Prometheus has stored: series with their points, and exemplars.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Backends;

/// One series of an answer. Prometheus keeps time in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct PrometheusSeries {
    pub(crate) labels: BTreeMap<String, String>,
    /// (time in Unix milliseconds, value).
    pub(crate) points: Vec<(i64, f64)>,
    /// Native histograms: (time in Unix milliseconds, `{"count", "sum", "buckets"}` as Prometheus writes it).
    pub(crate) histograms: Vec<(i64, Value)>,
}

#[derive(Clone, Debug)]
pub(crate) struct PrometheusExemplar {
    pub(crate) series_labels: BTreeMap<String, String>,
    /// `trace_id`, `span_id` and what else was sent with it.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
    pub(crate) time_unix_ms: i64,
}

impl Backends {
    /// Evaluates `promql` at a time. The points of an instant vector carry that time, not the sample's;
    /// for the samples themselves ask `prometheus_range_vector`.
    pub(crate) fn prometheus_query(&self, promql: &str, at_unix_nano: u64) -> Vec<PrometheusSeries> {
        let data = self.prometheus_data("query", &[("query", promql), ("time", &seconds(at_unix_nano))]);
        let result = &data["result"];
        match data["resultType"].as_str() {
            Some("scalar") => {
                vec![PrometheusSeries { labels: BTreeMap::new(), points: vec![point(result)], histograms: Vec::new() }]
            }
            Some("vector" | "matrix") => result.as_array().expect("a list of series").iter().map(series).collect(),
            _ => panic!("{promql} gives neither numbers nor series: {data}"),
        }
    }

    /// The stored samples of `selector[range]` that lie in the range before a time, each with its own time.
    /// A sample at the range's beginning is outside, one at its end inside. Staleness marks do not appear.
    pub(crate) fn prometheus_range_vector(&self, range_selector: &str, at_unix_nano: u64) -> Vec<PrometheusSeries> {
        assert!(range_selector.trim_end().ends_with(']'), "not a range vector: {range_selector}");
        self.prometheus_query(range_selector, at_unix_nano)
    }

    /// The exemplars of all series that `selector` names, between two times.
    pub(crate) fn prometheus_exemplars(&self, selector: &str, start_unix_nano: u64, end_unix_nano: u64) -> Vec<PrometheusExemplar> {
        let form = [("query", selector), ("start", &seconds(start_unix_nano)), ("end", &seconds(end_unix_nano))];
        let data = self.prometheus_data("query_exemplars", &form);
        let mut exemplars = Vec::new();
        for series in data.as_array().expect("a list of series") {
            for exemplar in series["exemplars"].as_array().expect("a list of exemplars") {
                exemplars.push(PrometheusExemplar {
                    series_labels: labels(&series["seriesLabels"]),
                    labels: labels(&exemplar["labels"]),
                    value: number(&exemplar["value"]),
                    time_unix_ms: milliseconds(&exemplar["timestamp"]),
                });
            }
        }
        exemplars
    }

    fn prometheus_data(&self, endpoint: &str, form: &[(&str, &str)]) -> Value {
        let url = format!("http://127.0.0.1:{}/api/v1/{endpoint}", self.ports.prometheus);
        let mut response = self.http.post(&url).send_form(form.iter().copied()).expect("an answer of Prometheus");
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_string().expect("the body of Prometheus' answer");
        assert_eq!(response.status(), 200, "Prometheus to {form:?}: {body}");
        serde_json::from_str::<Value>(&body).expect("JSON from Prometheus")["data"].take()
    }
}

fn series(series: &Value) -> PrometheusSeries {
    // An instant vector has `value` or `histogram`, a matrix `values` or `histograms`.
    let list = |one: &str, many: &str| -> Vec<Value> {
        let many = series[many].as_array().cloned().unwrap_or_default();
        series.get(one).cloned().into_iter().chain(many).collect()
    };
    PrometheusSeries {
        labels: labels(&series["metric"]),
        points: list("value", "values").iter().map(point).collect(),
        histograms: list("histogram", "histograms").iter().map(|pair| (milliseconds(&pair[0]), pair[1].clone())).collect(),
    }
}

fn point(pair: &Value) -> (i64, f64) {
    (milliseconds(&pair[0]), number(&pair[1]))
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let label = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap_or_default().to_owned());
    object.as_object().into_iter().flatten().map(label).collect()
}

/// Values are strings, since JSON has no infinity.
fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Times are seconds with a fraction of milliseconds.
fn milliseconds(time: &Value) -> i64 {
    (time.as_f64().expect("a time") * 1000.0).round() as i64
}

fn seconds(unix_nano: u64) -> String {
    format!("{}.{:03}", unix_nano / 1_000_000_000, unix_nano / 1_000_000 % 1000)
}
