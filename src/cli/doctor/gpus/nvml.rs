//! What is peculiar to NVML: why there is none, which of the host's devices are seen, what it says about its own fields.

use std::path::Path;

use super::{Gpus, State};
use crate::gpu::nvml::{Capability, NvmlOptions, NvmlSource, NvmlUnavailable};
use crate::gpu::{GpuSource as _, Options};

/// The source and what is known before its devices are read; else what is to be said about there being none.
pub(super) fn open(options: Options, asked_for: Option<&Path>, local_rank: Option<u32>) -> Result<(NvmlSource, Gpus), Box<Gpus>> {
    let variable = options.visible.clone();
    let own_device = local_rank.filter(|_| variable.is_none());
    let nvml = NvmlSource::open(NvmlOptions {
        path: asked_for.map(Path::to_owned),
        visible: options.visible.or_else(|| own_device.map(|number| number.to_string())),
        pci_order: options.pci_order,
        ..NvmlOptions::new(options.own_pids)
    });
    let source = match nvml {
        Ok(source) => source,
        Err(reason) => return Err(Box::new(unavailable(&reason, asked_for.is_some()))),
    };
    let mut gpus = Gpus { source: "NVML".to_owned(), library: Some(source.library().to_owned()), ..Gpus::default() };
    if let Some(path) = asked_for.filter(|path| path.as_os_str() != source.library()) {
        gpus.problems.push(format!("STEPLINE_NVML_PATH={} cannot be used: {} is used instead", path.display(), source.library()));
    }
    let seen: Vec<String> = source.devices().iter().map(|device| device.index.to_string()).collect();
    gpus.visible = Some(meaning(variable.as_deref(), own_device, &seen, source.doubt().map(|doubt| doubt.advice())));
    Ok((source, gpus))
}

/// Absent is normal and broken is not; what was asked for by its path may not even be absent.
fn unavailable(reason: &NvmlUnavailable, is_asked_for: bool) -> Gpus {
    let why = match reason {
        NvmlUnavailable::NoLibrary { tried } => format!("no NVIDIA driver here (NVML's library is in none of {} places)", tried.len()),
        other => other.to_string(),
    };
    let is_problem = !reason.is_normal() || (is_asked_for && !matches!(reason, NvmlUnavailable::NoneVisible { .. }));
    // What is wrong is said with what to do about it further down.
    let short = if is_problem { why.split([':', '.']).next().unwrap_or(&why) } else { &why };
    let source = format!("none: {}", if matches!(reason, NvmlUnavailable::NoLibrary { .. }) { &why } else { short });
    Gpus { source, problems: if is_problem { vec![why.clone()] } else { Vec::new() }, ..Gpus::default() }
}

fn meaning(variable: Option<&str>, own_device: Option<u32>, seen: &[String], doubt: Option<&str>) -> String {
    let numbers = seen.join(", ");
    let all = match variable {
        None if own_device.is_some() => {
            format!(
                "CUDA_VISIBLE_DEVICES is not set and other ranks share this host: this rank's own GPU is read (the driver's number {numbers})"
            )
        }
        None => format!("CUDA_VISIBLE_DEVICES is not set: all GPUs of this host are read (the driver's number {numbers})"),
        Some(variable) => {
            let entries = variable.split(',').count();
            let rest = if entries > seen.len() && doubt.is_none() {
                format!("; only {} of its {entries} entries name a GPU, and CUDA stops reading at the first that does not", seen.len())
            } else {
                String::new()
            };
            format!("CUDA_VISIBLE_DEVICES={variable} is the driver's number {numbers}{rest}")
        }
    };
    match doubt {
        Some(doubt) => format!("{all}; but {doubt}"),
        None => all,
    }
}

/// The source's own judgement.
pub(super) fn judge(source: &NvmlSource) -> Option<Vec<Vec<(&'static str, State)>>> {
    let of_devices = source.capabilities().into_iter().map(|device| {
        device
            .fields
            .into_iter()
            .map(|(name, capability)| {
                let state = match capability {
                    Capability::Supported => State::Supported,
                    Capability::Unsupported(why) => State::NotSupported(why),
                    Capability::Failing(why) => State::Failing(why),
                    Capability::NotAsked => State::NotAsked,
                };
                (name, state)
            })
            .collect()
    });
    Some(of_devices.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_and_why() {
        let seen = |numbers: &[&str]| numbers.iter().map(|number| (*number).to_owned()).collect::<Vec<_>>();
        assert!(meaning(None, None, &seen(&["0", "1"]), None).contains("all GPUs of this host"));
        assert!(meaning(None, Some(1), &seen(&["1"]), None).contains("this rank's own GPU is read (the driver's number 1)"));
        assert_eq!(meaning(Some("1"), None, &seen(&["1"]), None), "CUDA_VISIBLE_DEVICES=1 is the driver's number 1");
        assert!(meaning(Some("0,7,1"), None, &seen(&["0"]), None).contains("only 1 of its 3 entries"));
        assert!(meaning(Some("1"), None, &seen(&["0", "1"]), Some("what?")).ends_with("; but what?"));
    }

    #[test]
    fn absent_is_normal_unless_it_was_asked_for() {
        let none = || NvmlUnavailable::NoLibrary { tried: vec!["a".to_owned(), "b".to_owned()] };
        assert!(unavailable(&none(), false).problems.is_empty());
        assert_eq!(unavailable(&none(), true).problems.len(), 1);
        let mismatch = unavailable(&NvmlUnavailable::VersionMismatch { library: "libnvidia-ml.so.1".to_owned() }, false);
        assert!(mismatch.problems[0].contains("Reboot"), "{mismatch:?}");
        assert!(mismatch.source.len() < mismatch.problems[0].len());
    }
}
