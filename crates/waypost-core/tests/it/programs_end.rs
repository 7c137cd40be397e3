//! Random expressions over hostile data: each ends within its budget, with a value or a failure.

use waypost_core::expr::{Expression, RESULT_BYTES_MAX, Scope, WORK_MAX};
use waypost_core::failure::kind;
use waypost_core::json::Json;

use crate::programs::{Dice, data, program};

/// Less than an evaluation may do, so that thousands of them fit into a test.
const QUICK: u64 = WORK_MAX / 100;

/// The short form; `make fuzz-expressions` runs for as long as it is told, under a memory limit.
#[test]
fn random_programs_end_within_their_budget() {
    let run = || {
        let mut outcomes = std::collections::BTreeMap::<String, u32>::new();
        for seed in 0..3_000 {
            let dice = &mut Dice(seed);
            let source = program(dice);
            let input = Json::parse(&data(dice, 500)).unwrap();
            let mut scope = Scope::new();
            scope.json("input", &input);
            scope.limit_work(QUICK);
            let outcome = match Expression::compile(&source) {
                Err(_) => "fault".to_owned(),
                Ok(expression) => match expression.eval(&scope) {
                    Ok(json) => {
                        assert!(json.bytes() <= RESULT_BYTES_MAX, "seed {seed}: {source}");
                        "value".to_owned()
                    }
                    Err(failure) => failure.kind.into_owned(),
                },
            };
            assert!(scope.work() <= QUICK, "seed {seed}: {source}");
            *outcomes.entry(outcome).or_default() += 1;
        }
        outcomes
    };
    let outcomes = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join();
    let outcomes = outcomes.unwrap();
    // The programs are worth something: each way to end is met, and no other.
    let expected =
        ["value", kind::EXPRESSION, kind::EXPRESSION_LIMIT, kind::NUMBER_OUT_OF_RANGE, "fault"];
    assert!(outcomes.keys().all(|found| expected.contains(&found.as_str())), "{outcomes:?}");
    assert!(expected.iter().all(|kind| outcomes.contains_key(*kind)), "{outcomes:?}");
}
