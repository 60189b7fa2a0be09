//! Whether what is sent would be taken, signal by signal.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::probe::{self, Answer};
use super::watch::Watch;
use crate::config::Config;
use crate::model::Signal;

/// The probe keeps to the limit by itself, unless the system's lookup of names hangs.
const GRACE: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) signal: &'static str,
    /// The final URL; `None`: it is sent nowhere.
    pub(super) url: Option<String>,
    pub(super) protocol: Option<&'static str>,
    /// What stands between.
    pub(super) proxy: Option<String>,
    /// The setting that names the endpoint.
    pub(super) origin: String,
    pub(super) answers: bool,
    /// From the first byte to the answer, name lookup and connection included.
    pub(super) seconds: Option<f64>,
    pub(super) problem: Option<String>,
    /// What else the endpoint said.
    pub(super) note: Option<String>,
}

/// Asks all endpoints at once.
pub(super) fn look(config: &Config, limit: Duration) -> Vec<Finding> {
    let deadline = Instant::now() + limit + GRACE;
    let described = config.describe();
    let asked = Signal::ALL.map(|signal| {
        config.endpoint(signal).map(|endpoint| {
            let config = config.clone();
            (endpoint, Watch::start("doctor-endpoint", move |say| say(probe::ask(&config, signal, limit))))
        })
    });
    let findings = Signal::ALL.into_iter().zip(asked).map(|(signal, asked)| {
        let name = format!("{}_endpoint", signal.name());
        let origin = described.iter().find(|one| one.name == name).map_or_else(String::new, |one| one.origin.to_string());
        let mut finding = Finding {
            signal: signal.name(),
            url: None,
            protocol: None,
            proxy: None,
            origin,
            answers: false,
            seconds: None,
            problem: None,
            note: None,
        };
        if let Some((endpoint, watch)) = asked {
            finding.url = Some(endpoint.shown_url());
            finding.protocol = Some(endpoint.protocol.name());
            finding.proxy = endpoint.proxy.as_ref().map(|proxy| proxy.url.shown());
            match watch.wait(deadline).0 {
                Some(Answer::Yes { took, note }) => {
                    finding.answers = true;
                    finding.seconds = Some(took.as_secs_f64());
                    finding.note = note;
                }
                Some(Answer::No { why }) => finding.problem = Some(why),
                None => finding.problem = Some(format!("there is no answer within {} s", limit.as_secs())),
            }
        }
        finding
    });
    findings.collect()
}

/// One line for each different problem, with the signals that have it and the setting to correct.
pub(super) fn problems(findings: &[Finding]) -> Vec<String> {
    let mut lines: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for finding in findings {
        let Some(problem) = &finding.problem else { continue };
        // What differs by the signal's own path alone is the same.
        let problem = problem.replace(&format!("/v1/{}", finding.signal), "/v1/<signal>");
        match lines.iter_mut().find(|(other, origin, _)| *other == problem && *origin == finding.origin) {
            Some((_, _, signals)) => signals.push(finding.signal),
            None => lines.push((problem, &finding.origin, vec![finding.signal])),
        }
    }
    lines
        .into_iter()
        .map(|(problem, origin, signals)| {
            let from = if origin == "default" { "the default, since nothing else is set".to_owned() } else { origin.to_owned() };
            format!("{} cannot be sent: {problem} (the address comes from {from})", signals.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(signal: &'static str, origin: &str, problem: Option<&str>) -> Finding {
        Finding {
            signal,
            url: None,
            protocol: None,
            proxy: None,
            origin: origin.to_owned(),
            answers: false,
            seconds: None,
            problem: problem.map(str::to_owned),
            note: None,
        }
    }

    #[test]
    fn what_is_wrong_with_several_is_said_once() {
        let findings = [
            finding("traces", "A", Some("/v1/traces x")),
            finding("metrics", "A", Some("/v1/metrics x")),
            finding("logs", "default", Some("x")),
        ];
        assert_eq!(
            problems(&findings),
            [
                "traces, metrics cannot be sent: /v1/<signal> x (the address comes from A)",
                "logs cannot be sent: x (the address comes from the default, since nothing else is set)"
            ]
        );
        assert!(problems(&[finding("traces", "A", None)]).is_empty());
    }
}
