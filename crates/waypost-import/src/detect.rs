//! Which format a file has, by the fields that only this format has.

use waypost_lang::{Tree, TreeValue};

use crate::read::SourceFields;

/// The formats that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportFormat {
    /// CNCF Serverless Workflow 1.0.
    Serverless,
    /// The Amazon States Language.
    Asl,
    /// Workflows and task definitions of Conductor.
    Conductor,
    /// Workflows of GitHub Actions.
    Actions,
}

impl ImportFormat {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Serverless, Self::Asl, Self::Conductor, Self::Actions];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serverless => "serverless-workflow",
            Self::Asl => "asl",
            Self::Conductor => "conductor",
            Self::Actions => "github-actions",
        }
    }

    /// Does a file look like this format?
    fn fits(self, root: &Tree) -> bool {
        let is_map = |key: &str| root.get(key).is_some_and(|value| value.as_map().is_some());
        match self {
            Self::Serverless => is_map("document") && root.has("do"),
            Self::Asl => root.has("StartAt") && is_map("States"),
            Self::Actions => is_map("jobs") && root.has("on"),
            Self::Conductor => {
                let is_task = |tree: &Tree| {
                    let own =
                        ["retryCount", "retryLogic", "responseTimeoutSeconds", "timeoutPolicy"];
                    tree.has("name") && own.iter().any(|key| tree.has(key)) && !tree.has("nodes")
                };
                let is_workflow = |tree: &Tree| is_list_of(tree.get("tasks"), "taskReferenceName");
                match &root.value {
                    TreeValue::List(items) => {
                        !items.is_empty()
                            && items.iter().all(|item| is_task(item) || is_workflow(item))
                    }
                    _ => is_task(root) || is_workflow(root),
                }
            }
        }
    }
}

fn is_list_of(list: Option<&Tree>, key: &str) -> bool {
    list.is_some_and(|list| list.items().iter().any(|item| item.has(key)))
}

/// The format of a file, or why there is none.
pub(crate) fn detect(root: &Tree) -> Result<ImportFormat, String> {
    let fitting: Vec<ImportFormat> =
        ImportFormat::ALL.iter().copied().filter(|format| format.fits(root)).collect();
    let names = |formats: &[ImportFormat]| {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    };
    match fitting[..] {
        [format] => Ok(format),
        [] if root.has("nodes") && root.has("name") => {
            Err("it looks like a definition of Waypost: there is nothing to convert".to_owned())
        }
        [] => Err(format!(
            "it has the form of none of the known formats ({}): name one with `--from`, to see what is \
             missing",
            names(ImportFormat::ALL)
        )),
        _ => Err(format!("it may be one of {}: name it with `--from`", names(&fitting))),
    }
}

/// What a file of this format must have, if it lacks it.
pub(crate) fn missing(format: ImportFormat, root: &Tree) -> Option<&'static str> {
    if format.fits(root) {
        return None;
    }
    Some(match format {
        ImportFormat::Serverless => "a mapping `document`, and a list `do`",
        ImportFormat::Actions => "`on`, and a mapping `jobs`",
        ImportFormat::Asl => "`StartAt`, and a mapping `States`",
        ImportFormat::Conductor => {
            "`tasks` with a `taskReferenceName` each, or a task definition with `name` and `retryCount`"
        }
    })
}
