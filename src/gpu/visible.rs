//! Which devices this process may use: `CUDA_VISIBLE_DEVICES`, read as CUDA reads it. Pure: CUDA itself is never asked, since asking
//! would initialise it.
//!
//! CUDA's rules, as its documentation and PyTorch's reimplementation have them: an unset variable shows all devices; a list is read up
//! to the first entry that is invalid; an entry that stands twice leaves nothing; an entry is the number with which it begins, or a UUID
//! or a prefix that fits one UUID only; the first entry decides whether the list is one of numbers, of `GPU-` or of `MIG-` names.

/// A GPU of the host, in the order of the driver (its place on the PCI bus).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its UUID: `GPU-…`.
    pub uuid: String,
    /// What it is called. GPUs of one name are taken to be equally fast.
    pub name: String,
    /// Whether it is cut into MIG instances.
    pub mig: bool,
    /// UUIDs of its instances: `MIG-…`.
    pub instances: Vec<String>,
}

/// One device that the process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// A whole GPU: its place among the candidates.
    Gpu(usize),
    /// An instance: the place of its GPU, and its place there.
    Instance(usize, usize),
}

/// The devices that the process may use, in CUDA's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visible {
    /// Which.
    pub choices: Vec<Choice>,
    /// Why it is not certain that these are the ones; `None` when it is.
    pub doubt: Option<Doubt>,
}

/// Why it is not certain which devices a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// CUDA counts GPUs from the fastest on, the driver by their place on the bus, and they are not equally fast.
    Order,
    /// A GPU is cut into instances, and none was named: CUDA takes the first that it finds.
    Instance,
}

impl Doubt {
    /// What to do about it, for people.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Order => {
                "CUDA_VISIBLE_DEVICES numbers GPUs that differ, in an order that only CUDA knows: all that it could mean are sampled, also \
                 those of others. Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID"
            }
            Self::Instance => {
                "a GPU is cut into MIG instances and CUDA_VISIBLE_DEVICES names none: the first is sampled, which is what CUDA takes. Set \
                 CUDA_VISIBLE_DEVICES to the instance's UUID (nvidia-smi -L)"
            }
        }
    }
}

/// The devices that a process with this `CUDA_VISIBLE_DEVICES` may use. `pci_order`: whether `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.
#[must_use]
pub fn visible(candidates: &[Candidate], variable: Option<&str>, pci_order: bool) -> Visible {
    match variable {
        None => all(candidates),
        Some(list) if list.starts_with("GPU-") => by_gpu_name(candidates, list),
        Some(list) if list.starts_with("MIG-") => by_instance_name(candidates, list),
        Some(list) => by_number(candidates, list, pci_order),
    }
}

/// All GPUs; or, where one is cut into instances, the first instance alone: CUDA shows nothing beside it.
fn all(candidates: &[Candidate]) -> Visible {
    for (place, candidate) in candidates.iter().enumerate() {
        if candidate.mig && !candidate.instances.is_empty() {
            return Visible { choices: vec![Choice::Instance(place, 0)], doubt: Some(Doubt::Instance) };
        }
    }
    let choices = candidates.iter().enumerate().filter(|(_, candidate)| !candidate.mig).map(|(place, _)| Choice::Gpu(place)).collect();
    Visible { choices, doubt: None }
}

fn by_gpu_name(candidates: &[Candidate], list: &str) -> Visible {
    let places = entries(list, |entry| {
        let entry = entry.starts_with("GPU-").then_some(entry)?;
        only(candidates.iter().enumerate().filter(|(_, candidate)| candidate.uuid.starts_with(entry)).map(|(place, _)| place))
    });
    gpus(candidates, &places)
}

fn by_instance_name(candidates: &[Candidate], list: &str) -> Visible {
    let choices = entries(list, |entry| {
        let entry = entry.starts_with("MIG-").then_some(entry)?;
        let instances = candidates.iter().enumerate().flat_map(|(place, candidate)| {
            candidate.instances.iter().enumerate().map(move |(instance, uuid)| (Choice::Instance(place, instance), uuid))
        });
        only(instances.filter(|(_, uuid)| uuid.starts_with(entry)).map(|(choice, _)| choice))
    });
    Visible { choices, doubt: None }
}

fn by_number(candidates: &[Candidate], list: &str, pci_order: bool) -> Visible {
    let places = entries(list, |entry| usize::try_from(leading_number(entry)?).ok().filter(|place| *place < candidates.len()));
    let equal = candidates.windows(2).all(|pair| pair[0].name == pair[1].name);
    // The whole set in another order is the whole set.
    if pci_order || equal || places.is_empty() || places.len() == candidates.len() {
        return gpus(candidates, &places);
    }
    let every: Vec<usize> = (0..candidates.len()).collect();
    Visible { doubt: Some(Doubt::Order), ..gpus(candidates, &every) }
}

/// A GPU that is cut into instances is seen as its first.
fn gpus(candidates: &[Candidate], places: &[usize]) -> Visible {
    let mut visible = Visible::default();
    for &place in places {
        match candidates.get(place) {
            Some(candidate) if !candidate.mig => visible.choices.push(Choice::Gpu(place)),
            Some(candidate) if !candidate.instances.is_empty() => {
                visible.choices.push(Choice::Instance(place, 0));
                visible.doubt = Some(Doubt::Instance);
            }
            _ => {}
        }
    }
    visible
}

/// Reads the entries up to the first that is none. Nothing is left when one stands twice.
fn entries<T: PartialEq>(list: &str, mut find: impl FnMut(&str) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    for entry in list.split(',') {
        let Some(one) = find(entry.trim()) else { break };
        if found.contains(&one) {
            return Vec::new();
        }
        found.push(one);
    }
    found
}

/// The number with which the text begins (C's strtol: `1gpu` is 1). A negative one is none.
fn leading_number(entry: &str) -> Option<u64> {
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    digits.get(..length)?.parse().ok()
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Choice::{Gpu, Instance};
    use super::*;

    fn candidates(names: &[&str]) -> Vec<Candidate> {
        let uuid = |place| format!("GPU-{place}{place}ab-{place}");
        names
            .iter()
            .enumerate()
            .map(|(place, name)| Candidate { uuid: uuid(place), name: (*name).to_owned(), ..Candidate::default() })
            .collect()
    }

    fn chosen(variable: Option<&str>) -> Vec<Choice> {
        visible(&candidates(&["H100"; 4]), variable, false).choices
    }

    #[test]
    fn numbers() {
        assert_eq!(chosen(None), [Gpu(0), Gpu(1), Gpu(2), Gpu(3)]);
        assert_eq!(chosen(Some("2,3")), [Gpu(2), Gpu(3)], "row 11: device 0 of the process is GPU 2 of the host");
        assert_eq!(chosen(Some(" 3 , 1")), [Gpu(3), Gpu(1)]);
        assert_eq!(chosen(Some("1gpu2,2ampere")), [Gpu(1), Gpu(2)]);
        for nothing in ["", "-1", "none", "NoDevFiles", ",1", "4", "void", "99999999999999999999"] {
            assert_eq!(chosen(Some(nothing)), [], "{nothing}");
        }
        assert_eq!(chosen(Some("1,-1,2")), [Gpu(1)], "none after the first that is invalid");
        assert_eq!(chosen(Some("0,9,2")), [Gpu(0)]);
        assert_eq!(chosen(Some("0,GPU-11ab")), [Gpu(0)], "a list of numbers holds no names");
        assert_eq!(chosen(Some("0,1,0")), [], "one that stands twice leaves nothing");
    }

    #[test]
    fn names_and_their_unique_prefixes() {
        assert_eq!(chosen(Some("GPU-22ab-2,GPU-0")), [Gpu(2), Gpu(0)]);
        assert_eq!(chosen(Some("GPU-")), [], "fits four");
        assert_eq!(chosen(Some("GPU-1,1")), [Gpu(1)]);
        assert_eq!(chosen(Some("GPU-1,GPU-11ab")), [], "the same twice");
        assert_eq!(chosen(Some("GPU-1,GPU-7,GPU-2")), [Gpu(1)]);
    }

    #[test]
    fn unequal_gpus_counted_by_speed_are_in_doubt() {
        let unequal = candidates(&["T4", "H100", "H100"]);
        let doubtful = visible(&unequal, Some("0"), false);
        assert_eq!(doubtful, Visible { choices: vec![Gpu(0), Gpu(1), Gpu(2)], doubt: Some(Doubt::Order) });
        assert_eq!(visible(&unequal, Some("0"), true), Visible { choices: vec![Gpu(0)], doubt: None });
        assert_eq!(visible(&unequal, Some("2,0,1"), false).doubt, None, "all of them in any order are all of them");
        assert_eq!(visible(&unequal, Some("GPU-1"), false), Visible { choices: vec![Gpu(1)], doubt: None });
        assert_eq!(visible(&unequal, None, false).doubt, None);
        assert_eq!(visible(&unequal, Some(""), false), Visible::default());
    }

    #[test]
    fn instances() {
        let mut cut = candidates(&["H100", "H100"]);
        cut[1].mig = true;
        cut[1].instances = vec!["MIG-aa1".to_owned(), "MIG-ab2".to_owned()];
        assert_eq!(visible(&cut, Some("MIG-ab"), false), Visible { choices: vec![Instance(1, 1)], doubt: None });
        assert_eq!(visible(&cut, Some("MIG-a"), false).choices, []);
        assert_eq!(visible(&cut, Some("MIG-aa1,MIG-ab2"), false).choices, [Instance(1, 0), Instance(1, 1)]);
        assert_eq!(visible(&cut, Some("0"), false), Visible { choices: vec![Gpu(0)], doubt: None });
        assert_eq!(visible(&cut, Some("1"), false), Visible { choices: vec![Instance(1, 0)], doubt: Some(Doubt::Instance) });
        assert_eq!(visible(&cut, None, false), Visible { choices: vec![Instance(1, 0)], doubt: Some(Doubt::Instance) });
        cut[1].instances.clear();
        assert_eq!(visible(&cut, None, false).choices, [Gpu(0)], "a GPU cut into no instances at all has nothing to compute with");
    }

    fn entry() -> impl Strategy<Value = String> {
        prop_oneof![
            (0_usize..6).prop_map(|place| place.to_string()),
            (0_usize..6).prop_map(|place| format!("GPU-{place}{place}ab-{place}")),
            (0_usize..6).prop_map(|place| format!("GPU-{place}")),
            "[-+]?[0-9]{0,3}[a-z]{0,2}",
            "\\PC{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn any_text_gives_distinct_devices_that_exist(text in "\\PC*", count in 0_usize..5) {
            let visible = visible(&candidates(&["A"; 5][..count]), Some(&text), false);
            for (place, choice) in visible.choices.iter().enumerate() {
                prop_assert!(matches!(choice, Gpu(gpu) if *gpu < count));
                prop_assert!(!visible.choices[..place].contains(choice));
            }
        }

        #[test]
        fn what_follows_an_invalid_entry_does_not_count(before in prop::collection::vec(entry(), 0..4), after in prop::collection::vec(entry(), 0..4)) {
            let short = format!("{},!", before.join(","));
            let long = format!("{short},{}", after.join(","));
            prop_assert_eq!(chosen(Some(&short)), chosen(Some(&long)));
        }

        #[test]
        fn distinct_numbers_keep_their_order(places in Just((0_usize..4).collect::<Vec<_>>()).prop_shuffle(), count in 1_usize..5) {
            let places = &places[..count.min(4)];
            let list = places.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(chosen(Some(&list)), places.iter().map(|place| Gpu(*place)).collect::<Vec<_>>());
        }

        #[test]
        fn numbers_and_names_of_the_same_devices_agree(places in prop::collection::vec(0_usize..4, 1..5), cut in 5_usize..12) {
            let all = candidates(&["H100"; 4]);
            let numbers = places.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let names = places.iter().map(|place| { let uuid = &all[*place].uuid; uuid[..cut.min(uuid.len())].to_owned() });
            let names = names.collect::<Vec<_>>().join(",");
            prop_assert_eq!(chosen(Some(&numbers)), chosen(Some(&names)));
        }
    }
}
