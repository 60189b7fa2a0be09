//! `service.name` and further resource attributes.

use super::describe::Origin;
use super::pairs::pairs;
use super::settings::Settings;
use super::value::Finder;
use super::variables as name;
use crate::semconv;

/// What is said about the resource.
pub(super) struct Resource {
    pub(super) service_name: Option<String>,
    /// Each key once, without `service.name`.
    pub(super) attributes: Vec<(String, String)>,
}

/// Code goes before the environment, and `OTEL_SERVICE_NAME` before a `service.name` in the list.
pub(super) fn resource(finder: &mut Finder<'_>, settings: &Settings) -> Resource {
    let mut attributes = from_environment(finder);
    let origin = if attributes.is_empty() { Origin::Default } else { Origin::Variable(name::RESOURCE_ATTRIBUTES.into()) };
    finder.origins.set("resource_attributes", origin);
    let mut service_name = take(&mut attributes, semconv::attributes::SERVICE_NAME).map(|value| (value, name::RESOURCE_ATTRIBUTES));
    if let Some(value) = finder.environment.get(name::SERVICE_NAME) {
        service_name = Some((value.to_owned(), name::SERVICE_NAME));
    }
    let mut service_name = service_name.map(|(value, variable)| (value, Origin::Variable(variable.into())));

    let mut code = settings.resource_attributes.clone();
    let code_name = settings.service_name.clone().or_else(|| take(&mut code, semconv::attributes::SERVICE_NAME));
    code.retain(|(key, _)| key != semconv::attributes::SERVICE_NAME);
    if let Some(value) = code_name {
        service_name = Some((value, Origin::Code));
    }
    if !code.is_empty() {
        finder.origins.set("resource_attributes", Origin::Code);
    }
    for (key, value) in code {
        put(&mut attributes, key, value);
    }
    let service_name = service_name.map(|(value, origin)| {
        finder.origins.set("service_name", origin);
        value
    });
    Resource { service_name, attributes }
}

/// One bad entry makes the whole list void, as the specification has it: half a resource would be another one.
fn from_environment(finder: &mut Finder<'_>) -> Vec<(String, String)> {
    let environment = finder.environment;
    let Some(text) = environment.get(name::RESOURCE_ATTRIBUTES) else { return Vec::new() };
    let mut attributes = Vec::new();
    for pair in pairs(text) {
        match pair {
            Ok((key, value)) => put(&mut attributes, key, value),
            Err(why) => {
                finder.warn(format!("{}: {why}: the whole list is left out", name::RESOURCE_ATTRIBUTES));
                return Vec::new();
            }
        }
    }
    attributes
}

fn put(attributes: &mut Vec<(String, String)>, key: String, value: String) {
    attributes.retain(|(other, _)| *other != key);
    attributes.push((key, value));
}

fn take(attributes: &mut Vec<(String, String)>, key: &str) -> Option<String> {
    let place = attributes.iter().position(|(other, _)| other == key)?;
    Some(attributes.remove(place).1)
}
