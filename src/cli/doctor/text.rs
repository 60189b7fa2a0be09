//! What was found, for people: what is where in a left column, what is wrong last, next to the prompt.

use std::fmt::Write as _;

use super::endpoints::Finding;
use super::gpus::{Device, Gpus, State};
use super::{Diagnosis, Setting};
use crate::model::Signal;
use crate::report::format::{bytes, duration};
use crate::report::text::Style;

/// Lines are broken to stay within this.
const WIDTH: usize = 118;

/// Where the right column begins.
const COLUMN: usize = 11;

/// Where the fields of a device begin.
const FIELD_COLUMN: usize = COLUMN + 15;

pub(super) fn render(diagnosis: &Diagnosis, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.row("stepline", COLUMN, &headline(diagnosis), "");
    if diagnosis.disabled {
        page.row("", COLUMN, &["switched off by STEPLINE_DISABLED or OTEL_SDK_DISABLED: runs do nothing".to_owned()], "");
    }
    page.gap();
    page.gpus(&diagnosis.gpu);
    page.gap();
    let items = |items: &[super::host::Item]| items.iter().map(|item| format!("{} {}", item.name, item.value.text())).collect::<Vec<_>>();
    page.row("host", COLUMN, &items(&diagnosis.host.readable), "");
    if !diagnosis.host.unreadable.is_empty() {
        page.row("", COLUMN, &[format!("cannot be read: {}", diagnosis.host.unreadable.join(", "))], "");
    }
    page.gap();
    for place in &diagnosis.places {
        page.row(place.name, COLUMN, &[place.path.display().to_string(), place.state.to_owned()], "");
    }
    page.gap();
    page.endpoints(&diagnosis.endpoints);
    page.gap();
    page.settings(diagnosis);
    page.gap();
    page.problems(&diagnosis.problems);
    page.text
}

fn headline(diagnosis: &Diagnosis) -> Vec<String> {
    let platform = &diagnosis.platform;
    let mut parts = vec![diagnosis.version.to_owned(), format!("{} {}", platform.os, platform.architecture)];
    parts.extend(platform.kernel.iter().map(|kernel| format!("kernel {kernel}")));
    parts.push(match &platform.protocols[..] {
        [] => "built without a transport: nothing can be sent".to_owned(),
        protocols => format!("sends by {}", protocols.join(", ")),
    });
    parts
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn gap(&mut self) {
        self.text.push('\n');
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A label and, from `column` on, parts with ` · ` between them, broken between parts where a line would be too long.
    fn row(&mut self, label: &str, column: usize, parts: &[String], colour: &str) {
        let mut lines: Vec<String> = Vec::new();
        for part in parts.iter().map(|part| plain(part)) {
            match lines.last_mut() {
                Some(line) if column + width(line) + 3 + width(&part) <= WIDTH => {
                    line.push_str(" · ");
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
        for (place, line) in lines.iter().enumerate() {
            let label = if place == 0 { label } else { "" };
            let line = if colour.is_empty() { line.clone() } else { self.paint(colour, line) };
            let _ = writeln!(self.text, "{label:<column$}{line}");
        }
    }

    /// A label and a sentence, broken between words.
    fn sentence(&mut self, label: &str, column: usize, sentence: &str, colour: &str) {
        let mut lines = vec![String::new()];
        for word in plain(sentence).split(' ') {
            match lines.last_mut() {
                Some(line) if line.is_empty() || column + width(line) + 1 + width(word) <= WIDTH => {
                    line.push_str(if line.is_empty() { "" } else { " " });
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        for (place, line) in lines.iter().enumerate() {
            let label = if place == 0 { label } else { "" };
            let line = if colour.is_empty() { line.clone() } else { self.paint(colour, line) };
            let _ = writeln!(self.text, "{label:<column$}{line}");
        }
    }

    fn gpus(&mut self, gpus: &Gpus) {
        let mut source = gpus.source.clone();
        if let Some(version) = &gpus.driver_version {
            let _ = write!(source, ", driver {version}");
        }
        if let Some(library) = &gpus.library {
            let _ = write!(source, ", {library}");
        }
        self.sentence("gpu", COLUMN, &source, "");
        if let Some(visible) = &gpus.visible {
            self.sentence("", COLUMN, visible, "");
        }
        for device in &gpus.devices {
            self.device(device);
        }
    }

    fn device(&mut self, device: &Device) {
        let mut parts = vec![device.name.clone()];
        parts.extend(device.memory_bytes.map(bytes));
        parts.push(device.id.clone());
        parts.extend(device.note.clone());
        self.row(&format!("gpu {}", device.index), COLUMN, &parts, "");
        if !device.answers {
            self.row("", COLUMN, &["does not answer".to_owned()], "33");
        }
        let fields = |wanted: fn(&State) -> bool| device.fields.iter().filter(move |field| wanted(&field.state));
        let supported: Vec<String> = fields(|state| *state == State::Supported)
            .map(|field| {
                let now: Vec<String> = field.now.iter().map(super::fields::Value::text).collect();
                format!("{} {}", field.name, if now.is_empty() { "–".to_owned() } else { now.join(", ") })
            })
            .collect();
        self.row(&format!("{:COLUMN$}supported", ""), FIELD_COLUMN, &supported, "");
        // By their reasons, which are few.
        for (label, colour, why) in [
            ("not supported", "2", (|state| if let State::NotSupported(why) = state { Some(why.as_str()) } else { None }) as Why),
            ("failing", "33", |state| if let State::Failing(why) = state { Some(why.as_str()) } else { None }),
            ("not asked", "33", |state| (*state == State::NotAsked).then_some("there was no time")),
        ] {
            let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
            for (field, reason) in device.fields.iter().filter_map(|field| Some((field, why(&field.state)?))) {
                match reasons.iter_mut().find(|(other, _)| *other == reason) {
                    Some((_, names)) => names.push(field.name),
                    None => reasons.push((reason, vec![field.name])),
                }
            }
            let reasons: Vec<String> = reasons.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect();
            if !reasons.is_empty() {
                self.sentence(&format!("{:COLUMN$}{label}", ""), FIELD_COLUMN, &reasons.join(" · "), colour);
            }
        }
    }

    fn endpoints(&mut self, findings: &[Finding]) {
        if findings.iter().all(|finding| finding.url.is_none()) {
            let nowhere = "none: runs are kept in files alone. Set OTEL_EXPORTER_OTLP_ENDPOINT to send them as well";
            self.row("endpoint", COLUMN, &[nowhere.to_owned()], "");
            return;
        }
        for finding in findings {
            let Some(url) = &finding.url else {
                self.row(finding.signal, COLUMN, &[format!("sent nowhere ({})", finding.origin)], "");
                continue;
            };
            let state = match finding.seconds {
                Some(seconds) if finding.answers => format!("answers in {}", duration(seconds)),
                _ => "DOES NOT WORK".to_owned(),
            };
            let mut parts = vec![url.clone(), finding.protocol.unwrap_or_default().to_owned()];
            parts.extend(finding.proxy.iter().map(|proxy| format!("through the proxy {proxy}")));
            parts.push(state);
            self.row(finding.signal, COLUMN, &parts, if finding.answers { "" } else { "33" });
            if let Some(note) = &finding.note {
                self.sentence("", COLUMN, note, "");
            }
        }
    }

    /// What nobody has set is dim, so that what somebody has set is seen.
    fn settings(&mut self, diagnosis: &Diagnosis) {
        let settings = merged(&diagnosis.settings);
        let widest = |of: fn(&Setting) -> &str| settings.iter().map(|one| width(&plain(of(one)))).max().unwrap_or(0);
        let names = widest(|one| &one.name).max("setting".len()) + 2;
        // One very long value must not push all origins off the screen.
        let values = (widest(|one| &one.value).max("value".len()) + 2).min(60);
        let header = format!("{:<names$}{:<values$}from", "setting", "value");
        let header = self.paint("2", &header);
        let _ = writeln!(self.text, "{header}");
        for one in &settings {
            let line = format!("{:<names$}{:<values$}{}", plain(&one.name), format!("{}  ", plain(&one.value)), plain(&one.origin));
            let line = if one.origin == "default" { self.paint("2", &line) } else { line };
            let _ = writeln!(self.text, "{line}");
        }
    }

    fn problems(&mut self, problems: &[String]) {
        if problems.is_empty() {
            let line = self.paint("32", "all that was asked for works");
            let _ = writeln!(self.text, "{line}");
            return;
        }
        let count = crate::report::format::count(problems.len() as u64, "problem", "problems");
        let _ = writeln!(self.text, "{count}");
        for problem in problems {
            self.sentence("  -", 4, problem, "33");
        }
    }
}

/// The settings with one line for what is the same for all three signals, under the name that sets it for all.
fn merged(settings: &[Setting]) -> Vec<Setting> {
    let same = |one: &Setting, rest: &str| {
        Signal::ALL.iter().all(|signal| {
            let name = format!("{}_{rest}", signal.name());
            settings.iter().any(|other| other.name == name && other.value == one.value && other.origin == one.origin)
        })
    };
    let rest =
        |one: &Setting| Signal::ALL.iter().find_map(|signal| one.name.strip_prefix(signal.name())?.strip_prefix('_').map(str::to_owned));
    let mut merged: Vec<Setting> = Vec::new();
    for one in settings {
        match rest(one).filter(|rest| same(one, rest)) {
            Some(name) if merged.iter().any(|other| other.name == name) => {}
            Some(name) => merged.push(Setting { name, ..one.clone() }),
            None => merged.push(one.clone()),
        }
    }
    merged
}

/// Why a field is in that state.
type Why = fn(&State) -> Option<&str>;

/// Names come from drivers, servers and variables: what would move the cursor or turn the text around is shown as `?`.
fn plain(text: &str) -> String {
    let is_bad =
        |sign: char| sign.is_control() || matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|sign| if is_bad(sign) { '?' } else { sign }).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}
