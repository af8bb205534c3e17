//! JSON Schemas of what programs read: the inventory, and what `-o json` prints.

use clap::ValueEnum;
use daedal_engine::{Event, Report, StatusReport};
use daedal_planner::{Counts, Difference, Note, Phase, Plan};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// What a schema is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// The inventory.
    Inventory,
    /// What `plan -o json` prints.
    Plan,
    /// Each line that `apply -o json` prints to standard error.
    Events,
    /// What `apply -o json`, its phases and `recreate` print to standard output.
    Report,
    /// What `status -o json` prints.
    Status,
}

/// What is said beside a code.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Words {
    /// Node or thing it is about.
    about: String,
    /// One or two sentences.
    text: String,
    /// A command or edit that helps.
    fix: Option<String>,
}

/// A plan, with what names it and what it comes to.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct PlanOutput {
    #[schemars(flatten)]
    plan: Plan,
    /// Everything that the plan does, counted.
    counts: Counts,
    /// What names the plan: the same plan has the same id.
    id: String,
}

/// How a run went, and what the plan could not reach.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum RunOutput {
    /// Steps were carried out.
    Changed(Box<ChangedOutput>),
    /// There was nothing to do.
    Unchanged {
        /// False.
        changed: bool,
        /// What the user should know.
        notes: Vec<Note>,
        /// What is not as declared and stays so.
        differences: Vec<Difference>,
        /// The phase of an apply that it was limited to, if it was.
        #[schemars(skip_serializing_if = "Option::is_none")]
        phase: Option<Phase>,
    },
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
struct ChangedOutput {
    #[schemars(flatten)]
    report: Report,
    /// True.
    changed: bool,
    /// What the user should know.
    notes: Vec<Note>,
    /// What is not as declared and stays so.
    differences: Vec<Difference>,
    /// What was found and done once nodes had been started, if anything was.
    #[schemars(skip_serializing_if = "Option::is_none")]
    follow_up: Option<Value>,
    /// The phase of an apply that it was limited to, if it was.
    #[schemars(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// What `recreate` did first, if there was anything to destroy.
    #[schemars(skip_serializing_if = "Option::is_none")]
    destroyed: Option<Value>,
}

/// The JSON Schema (draft 2020-12) of a document.
pub fn of(document: Document) -> Value {
    match document {
        Document::Inventory => daedal_inventory::schema(),
        Document::Plan => with_words(made::<PlanOutput>("Plan")),
        Document::Events => made::<Event>("Event"),
        Document::Report => with_words(made::<RunOutput>("Report")),
        Document::Status => {
            let mut schema = made::<StatusReport>("Status");
            let storages = &mut schema["properties"]["storages"]["items"];
            *storages = json!({"allOf": [storages.take(), words()]});
            schema
        }
    }
}

fn made<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = title.into();
    schema
}

fn words() -> Value {
    let mut schema = made::<Words>("Words");
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

/// Notes and differences are printed with words beside their codes.
fn with_words(mut schema: Value) -> Value {
    let definitions = &mut schema["$defs"];
    let note = definitions["Note"].take();
    definitions["Note"] = json!({"allOf": [note, words()]});
    definitions["Difference"]["properties"]["fix"] =
        json!({"type": "string", "description": "A command or edit that helps."});
    schema
}
