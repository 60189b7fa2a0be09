//! What the launcher says: which of how many processes this is, which start of the job, and which job.
//!
//! Two traps. Some platforms set `RANK` and `WORLD_SIZE` for each node: they count processes only beside `LOCAL_RANK`. And inside a
//! Slurm step that starts torchrun or mpirun, Slurm's numbers count nodes: the inner launcher goes first.

use super::Launch;
use super::describe::Origin;
use super::environment::Environment;
use super::value::Finder;
use super::variables as name;

/// What was found out.
pub(super) struct Found {
    pub(super) launch: Launch,
    /// The job's id, the same for all ranks and attempts.
    pub(super) run_id: Option<(String, Origin)>,
}

struct Place {
    launcher: &'static str,
    rank: u32,
    rank_variable: &'static str,
    local_rank: Option<u32>,
    world_size: Option<u32>,
}

pub(super) fn launch(finder: &mut Finder<'_>) -> Found {
    let environment = finder.environment;
    let place = torch(environment)
        .or_else(|| mpi(environment))
        .or_else(|| paddle(environment))
        .or_else(|| slurm(environment))
        .or_else(|| tensorflow(environment))
        .or_else(|| kubernetes(environment));
    let mut launch = Launch { world_size: 1, attempt: attempt(environment), ..Launch::default() };
    if let Some(place) = place {
        launch.launcher = Some(place.launcher);
        launch.rank = place.rank;
        launch.local_rank = place.local_rank;
        // Where the launcher does not say how many there are, there are at least as many as this one's number tells.
        launch.world_size = place.world_size.unwrap_or(0).max(place.rank.saturating_add(1));
        if place.world_size.is_some_and(|size| place.rank >= size) {
            finder.warn(format!(
                "{}={} is not below the number of processes that the launcher gives ({}): {} processes are taken for granted",
                place.rank_variable,
                place.rank,
                place.world_size.unwrap_or(0),
                launch.world_size
            ));
        }
        finder.origins.set("launcher", Origin::Variable(place.rank_variable.into()));
        finder.origins.set("rank", Origin::Variable(place.rank_variable.into()));
        finder.origins.set("local_rank", Origin::Variable(place.rank_variable.into()));
    }
    if launch.attempt > 0 {
        let counted = |variable| environment.number(variable).is_some_and(|count| count > 0);
        let variable = if counted("TORCHELASTIC_RESTART_COUNT") { "TORCHELASTIC_RESTART_COUNT" } else { "SLURM_RESTART_COUNT" };
        finder.origins.set("attempt", Origin::Variable(variable.into()));
    }
    let run_id = run_id(environment).or_else(|| shared_run_id(environment, &launch));
    Found { launch, run_id }
}

/// The warning that ranks without a common id deserve.
pub(super) fn warn_without_run_id(finder: &mut Finder<'_>, launch: &Launch) {
    if launch.world_size > 1 {
        finder.warn(format!(
            "the {} processes of this job have no run id in common: each will look like a run of its own. Set {} to the same value for all of them",
            launch.world_size,
            name::RUN_ID
        ));
    }
}

fn torch(environment: &Environment) -> Option<Place> {
    let local_rank = environment.number("LOCAL_RANK")?;
    Some(Place {
        launcher: if environment.get("TORCHELASTIC_RUN_ID").is_some() { "torchrun" } else { "torch" },
        rank: environment.number("RANK")?,
        rank_variable: "RANK",
        local_rank: Some(local_rank),
        world_size: environment.number("WORLD_SIZE"),
    })
}

fn slurm(environment: &Environment) -> Option<Place> {
    environment.get("SLURM_JOB_ID").or_else(|| environment.get("SLURM_PROCID"))?;
    let rank = environment.number("SLURM_PROCID").unwrap_or(0);
    let tasks_of_step = environment.number("SLURM_STEP_NUM_TASKS");
    // A batch script has SLURM_PROCID=0 and the allocation's SLURM_NTASKS, and is one process: only a step has ranks.
    let in_step = rank > 0 || ["SLURM_STEP_ID", "SLURM_STEPID"].iter().any(|name| environment.get(name).is_some());
    let world_size = tasks_of_step.or_else(|| if in_step { environment.number("SLURM_NTASKS") } else { Some(1) });
    Some(Place { launcher: "slurm", rank, rank_variable: "SLURM_PROCID", local_rank: environment.number("SLURM_LOCALID"), world_size })
}

fn mpi(environment: &Environment) -> Option<Place> {
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ]
    .into_iter()
    .find_map(|(rank, size, local)| {
        Some(Place {
            launcher: "mpi",
            rank: environment.number(rank)?,
            rank_variable: rank,
            local_rank: environment.number(local),
            world_size: environment.number(size),
        })
    })
}

fn paddle(environment: &Environment) -> Option<Place> {
    Some(Place {
        launcher: "paddle",
        rank: environment.number("PADDLE_TRAINER_ID")?,
        rank_variable: "PADDLE_TRAINER_ID",
        local_rank: environment.number("PADDLE_RANK_IN_NODE"),
        world_size: environment.number("PADDLE_TRAINERS_NUM"),
    })
}

/// `TF_CONFIG`: the chief (or master) is the first, the workers follow; parameter servers and evaluators are no ranks.
fn tensorflow(environment: &Environment) -> Option<Place> {
    let config: serde_json::Value = serde_json::from_str(environment.get("TF_CONFIG")?).ok()?;
    let count = |kind: &str| config["cluster"][kind].as_array().map_or(0, |list| u32::try_from(list.len()).unwrap_or(0));
    let chiefs = count("chief") + count("master");
    let index = u32::try_from(config["task"]["index"].as_u64()?).ok()?;
    let rank = match config["task"]["type"].as_str()? {
        "chief" | "master" => index,
        "worker" => chiefs.checked_add(index)?,
        _ => return None,
    };
    Some(Place { launcher: "tensorflow", rank, rank_variable: "TF_CONFIG", local_rank: None, world_size: Some(chiefs + count("worker")) })
}

fn kubernetes(environment: &Environment) -> Option<Place> {
    Some(Place {
        launcher: "kubernetes",
        rank: environment.number("JOB_COMPLETION_INDEX")?,
        rank_variable: "JOB_COMPLETION_INDEX",
        local_rank: None,
        world_size: None,
    })
}

/// How often the job was started before. torchrun counts from 0 again each time that Slurm starts it.
fn attempt(environment: &Environment) -> u32 {
    let of_slurm = environment.number("SLURM_RESTART_COUNT").unwrap_or(0);
    let of_torch = environment.number("TORCHELASTIC_RESTART_COUNT").unwrap_or(0);
    let at_most = environment.number("TORCHELASTIC_MAX_RESTARTS").unwrap_or(0).max(of_torch);
    of_slurm.saturating_mul(at_most.saturating_add(1)).saturating_add(of_torch)
}

fn run_id(environment: &Environment) -> Option<(String, Origin)> {
    ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"].into_iter().find_map(|variable| {
        let value = environment.get(variable)?;
        // torchrun's word for "nobody gave me one": not the same job as any other that nobody named.
        (value != "none").then(|| (value.to_owned(), Origin::Variable(variable.into())))
    })
}

/// All ranks on one host under one parent: who the parent is tells the job, although nobody named it.
fn shared_run_id(environment: &Environment, launch: &Launch) -> Option<(String, Origin)> {
    let on_one_host = environment.number("LOCAL_WORLD_SIZE").is_some_and(|local| local == launch.world_size)
        || (launch.launcher == Some("mpi") && launch.local_rank == Some(launch.rank));
    if launch.world_size < 2 || !on_one_host {
        return None;
    }
    Some(((environment.parent)()?, Origin::Default))
}
