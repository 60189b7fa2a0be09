#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn resolved(variables: &[(&str, &str)]) -> Config {
    resolve(&Settings::default(), &Environment::of(variables.iter().copied()))
}

fn origin(config: &Config, name: &str) -> String {
    config.describe().into_iter().find(|described| described.name == name).unwrap().origin.to_string()
}

/// One warning, which holds all of these.
fn assert_warned(config: &Config, parts: &[&str]) {
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    for part in parts {
        assert!(config.warnings[0].contains(part), "{part:?} in {:?}", config.warnings[0]);
    }
}

#[test]
fn nothing_said() {
    let config = resolved(&[]);
    assert_eq!(config.warnings, Vec::<String>::new());
    assert!(!config.disabled && config.files && config.summary && !config.silent);
    assert_eq!((&config.run_id, &config.run_name, &config.service_name), (&None, &None, &None));
    assert_eq!(config.launch, Launch { world_size: 1, ..Launch::default() });
    assert_eq!(config.directory, PathBuf::from("stepline-runs"));
    assert_eq!(config.journal_directory, PathBuf::from("/tmp/stepline-1000"));
    assert_eq!((config.journal_size_bytes, config.queue_bytes), (2 << 20, 64 << 20));
    assert_eq!((config.sample_interval, config.export_interval), (Duration::from_secs(1), Duration::from_secs(5)));
    assert_eq!(
        (config.shutdown_timeout, config.step_spans, config.gpu.clone()),
        (Duration::from_secs(5), StepSpans::Auto, GpuChoice::Auto)
    );
    assert!(Signal::ALL.iter().all(|signal| config.endpoint(*signal).is_none()));
    assert!(config.describe().iter().all(|described| described.origin == Origin::Default));
}

#[test]
fn switches() {
    for (value, expected) in [("1", true), ("true", true), ("YES", true), ("On", true), ("0", false), ("off", false), ("no", false)] {
        assert_eq!(resolved(&[("STEPLINE_DISABLED", value)]).disabled, expected, "{value}");
        assert_eq!(resolved(&[("STEPLINE_FILES", value)]).files, expected, "{value}");
    }
    for (value, expected) in [("true", true), ("TRUE", true), ("false", false), ("1", false), ("yes", false)] {
        let config = resolved(&[("OTEL_SDK_DISABLED", value)]);
        assert_eq!(config.disabled, expected, "{value}");
        assert_eq!(config.warnings.is_empty(), value.len() > 3, "{:?}", config.warnings);
    }
    // The nearer one goes first.
    assert!(!resolved(&[("OTEL_SDK_DISABLED", "true"), ("STEPLINE_DISABLED", "0")]).disabled);
    assert_warned(&resolved(&[("STEPLINE_FILES", "perhaps")]), &["STEPLINE_FILES", "perhaps", "on is used"]);
    assert_warned(&resolved(&[("STEPLINE_DISABLED", "perhaps")]), &["STEPLINE_DISABLED", "off is used"]);
}

#[test]
fn numbers_and_their_bounds() {
    for (value, milliseconds, warning) in [
        ("100", 100, None),
        ("250", 250, None),
        ("60000", 60_000, None),
        ("10", 100, Some("100 ms is used")),
        ("0", 100, Some("100 ms is used")),
        ("60001", 60_000, Some("60000 ms is used")),
        ("fast", 1000, Some("1000 ms is used")),
        ("-5", 1000, Some("1000 ms is used")),
        ("0.5", 1000, Some("1000 ms is used")),
        ("99999999999999999999999", 1000, Some("1000 ms is used")),
    ] {
        let config = resolved(&[("STEPLINE_SAMPLE_INTERVAL", value)]);
        assert_eq!(config.sample_interval, Duration::from_millis(milliseconds), "{value}");
        match warning {
            Some(warning) => assert_warned(&config, &["STEPLINE_SAMPLE_INTERVAL", value, warning]),
            None => assert_eq!(config.warnings, Vec::<String>::new()),
        }
    }
    for (value, bytes, warns) in [
        ("1048576", 1 << 20, false),
        ("8M", 8 << 20, false),
        ("8 MiB", 8 << 20, false),
        ("1g", 1 << 30, false),
        ("1", 64 << 10, true),
        ("999999999999999999G", 2 << 20, true),
        ("many", 2 << 20, true),
    ] {
        let config = resolved(&[("STEPLINE_JOURNAL_SIZE", value)]);
        assert_eq!((config.journal_size_bytes, !config.warnings.is_empty()), (bytes, warns), "{value} {:?}", config.warnings);
    }
    let settings = Settings { sample_interval: Some(Duration::from_millis(3)), ..Settings::default() };
    let config = resolve(&settings, &Environment::of([("STEPLINE_SAMPLE_INTERVAL", "500")]));
    assert_eq!((config.sample_interval, origin(&config, "sample_interval")), (Duration::from_millis(100), "code".to_owned()));
    assert_warned(&config, &["sample_interval", "3 ms", "in code", "100 ms is used"]);
}

#[test]
fn choices() {
    for (value, expected, warns) in [
        ("auto", StepSpans::Auto, false),
        ("ALL", StepSpans::All, false),
        ("none", StepSpans::None, false),
        ("every:7", StepSpans::Every(7), false),
        ("every:0", StepSpans::Auto, true),
        ("every:x", StepSpans::Auto, true),
        ("some", StepSpans::Auto, true),
    ] {
        let config = resolved(&[("STEPLINE_STEP_SPANS", value)]);
        assert_eq!((config.step_spans, !config.warnings.is_empty()), (expected, warns), "{value}");
    }
    for (value, expected, warns) in [
        ("auto", GpuChoice::Auto, false),
        ("off", GpuChoice::Off, false),
        ("mirror", GpuChoice::Mirror, false),
        ("replay:/a:b/c.csv", GpuChoice::Replay("/a:b/c.csv".into()), false),
        ("replay:", GpuChoice::Auto, true),
        ("cuda", GpuChoice::Auto, true),
    ] {
        let config = resolved(&[("STEPLINE_GPU", value)]);
        assert_eq!((config.gpu.clone(), !config.warnings.is_empty()), (expected, warns), "{value}");
    }
    assert!(resolved(&[("OTEL_LOG_LEVEL", "none")]).silent);
    assert_warned(&resolved(&[("OTEL_LOG_LEVEL", "loud")]), &["OTEL_LOG_LEVEL", "info is used"]);
}

#[test]
fn the_shorter_interval_holds() {
    for (metric, spans, milliseconds) in [
        (Some("3000"), None, 3000),
        (None, Some("2000"), 2000),
        (Some("3000"), Some("2000"), 2000),
        (Some("1000"), Some("2000"), 1000),
        (Some("x"), Some("2000"), 2000),
        (Some("60000"), None, 60_000),
        (Some("1"), None, 100),
    ] {
        let variables = [("OTEL_METRIC_EXPORT_INTERVAL", metric), ("OTEL_BSP_SCHEDULE_DELAY", spans)];
        let set: Vec<_> = variables.iter().filter_map(|(name, value)| value.map(|value| (*name, value))).collect();
        assert_eq!(resolved(&set).export_interval, Duration::from_millis(milliseconds), "{set:?}");
    }
}

#[test]
fn names_and_attributes() {
    let config = resolved(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=d%20e,x=1=2"), ("OTEL_SERVICE_NAME", "b")]);
    assert_eq!(config.service_name.as_deref(), Some("b"));
    assert_eq!(origin(&config, "service_name"), "OTEL_SERVICE_NAME");
    let expected = [("team".to_owned(), "d e".to_owned()), ("x".to_owned(), "1=2".to_owned())];
    assert_eq!(config.resource_attributes, expected);
    assert_eq!(resolved(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a")]).service_name.as_deref(), Some("a"));

    let config = resolved(&[("OTEL_RESOURCE_ATTRIBUTES", "team=x,bad")]);
    assert_eq!(config.resource_attributes, []);
    assert_warned(&config, &["OTEL_RESOURCE_ATTRIBUTES", "the whole list is left out"]);

    let settings = Settings {
        service_name: Some("c".to_owned()),
        resource_attributes: vec![("team".to_owned(), "mine".to_owned())],
        ..Settings::default()
    };
    let config = resolve(&settings, &Environment::of([("OTEL_SERVICE_NAME", "b"), ("OTEL_RESOURCE_ATTRIBUTES", "team=theirs,x=1")]));
    assert_eq!(config.service_name.as_deref(), Some("c"));
    assert_eq!(config.resource_attributes, [("x".to_owned(), "1".to_owned()), ("team".to_owned(), "mine".to_owned())]);
}

#[test]
fn unknown_names_are_said() {
    assert_warned(
        &resolved(&[("STEPLINE_SAMPLE_INTERVALS", "1")]),
        &["STEPLINE_SAMPLE_INTERVALS", "nearest one is STEPLINE_SAMPLE_INTERVAL"],
    );
    assert_warned(&resolved(&[("OTEL_CONFIG_FILE", "x")]), &["OTEL_CONFIG_FILE", "not supported"]);
    assert!(resolved(&[("STEPLINE_DISABLED", "1"), ("STEPLINE_X", "1")]).warnings.is_empty());
}

#[test]
fn launchers() {
    let launch = |launcher, rank, local_rank, world_size, attempt| Launch { launcher, rank, local_rank, world_size, attempt };
    let torchrun =
        [("RANK", "3"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "4"), ("TORCHELASTIC_RUN_ID", "job"), ("TORCHELASTIC_RESTART_COUNT", "2")];
    let slurm = [("SLURM_JOB_ID", "77"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "8")];
    let step = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_RESTART_COUNT", "1")];
    let tf = r#"{"cluster": {"chief": ["a"], "worker": ["b", "c"], "ps": ["d"]}, "task": {"type": "worker", "index": 1}}"#;
    for (variables, expected, run_id) in [
        (torchrun.to_vec(), launch(Some("torchrun"), 3, Some(1), 4, 2), Some("job")),
        // RANK alone counts nodes.
        (vec![("RANK", "1"), ("WORLD_SIZE", "2")], launch(None, 0, None, 1, 0), None),
        (vec![("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")], launch(Some("torch"), 1, Some(0), 2, 0), None),
        (slurm.to_vec(), launch(Some("slurm"), 0, Some(0), 1, 0), Some("77")),
        ([&slurm[..], &step[..]].concat(), launch(Some("slurm"), 0, Some(0), 4, 1), Some("77")),
        (vec![("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "7")], launch(Some("slurm"), 3, None, 8, 0), Some("7")),
        // srun torchrun, requeued once, then restarted twice by torchrun itself.
        (
            [&torchrun[..], &slurm[..], &step[..], &[("TORCHELASTIC_MAX_RESTARTS", "3")]].concat(),
            launch(Some("torchrun"), 3, Some(1), 4, 6),
            Some("job"),
        ),
        (
            vec![("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_RANK", "0"), ("SLURM_JOB_ID", "9")],
            launch(Some("mpi"), 2, Some(0), 4, 0),
            Some("9"),
        ),
        (vec![("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1")], launch(Some("mpi"), 1, Some(1), 2, 0), None),
        (vec![("PADDLE_TRAINER_ID", "1"), ("PADDLE_TRAINERS_NUM", "2")], launch(Some("paddle"), 1, None, 2, 0), None),
        (vec![("TF_CONFIG", tf)], launch(Some("tensorflow"), 2, None, 3, 0), None),
        (vec![("TF_CONFIG", "{")], launch(None, 0, None, 1, 0), None),
        (vec![("JOB_COMPLETION_INDEX", "5")], launch(Some("kubernetes"), 5, None, 6, 0), None),
        (vec![("RANK", "x"), ("LOCAL_RANK", "0")], launch(None, 0, None, 1, 0), None),
        (
            vec![("TORCHELASTIC_RUN_ID", "none"), ("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")],
            launch(Some("torchrun"), 0, Some(0), 1, 0),
            None,
        ),
    ] {
        let config = resolved(&variables);
        assert_eq!(config.launch, expected, "{variables:?}");
        assert_eq!(config.run_id.as_deref(), run_id, "{variables:?}");
        assert_eq!(config.warnings.is_empty(), run_id.is_some() || expected.world_size == 1, "{variables:?} {:?}", config.warnings);
    }
}

#[test]
fn ranks_of_one_parent_agree_on_a_run_id() {
    let variables = [("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "none")];
    let mut environment = Environment::of(variables);
    environment.parent = || Some("boot-1-2".to_owned());
    let config = resolve(&Settings::default(), &environment);
    assert_eq!((config.run_id.as_deref(), config.warnings.len()), (Some("boot-1-2"), 0));
    // Two hosts have two parents.
    let mut environment =
        Environment::of(variables.iter().map(|(name, value)| (*name, if *name == "LOCAL_WORLD_SIZE" { "1" } else { value })));
    environment.parent = || Some("boot-1-2".to_owned());
    let config = resolve(&Settings::default(), &environment);
    assert_eq!(config.run_id, None);
    assert_warned(&config, &["STEPLINE_RUN_ID"]);
}

proptest! {
    #[test]
    fn no_value_is_a_failure(name in 0..VARIABLES.len(), value in "\\PC{0,30}") {
        let config = resolved(&[(VARIABLES[name].name, &value), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a")]);
        prop_assert!(config.sample_interval >= Duration::from_millis(100));
        let _ = config.describe();
    }
}
