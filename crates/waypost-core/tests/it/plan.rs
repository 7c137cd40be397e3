//! What `Plan::build` works out, and what it refuses.

use waypost_core::flow::{build, plan};
use waypost_core::plan::{Plan, PlanFault};

fn ids(plan: &Plan, positions: &[waypost_core::id::NodeIx]) -> Vec<String> {
    positions.iter().map(|at| plan.node(*at).id.to_string()).collect()
}

#[test]
fn faults_of_the_graph_are_refused() {
    let fault = |text: &str| build(text).expect_err("the graph is wrong");
    assert_eq!(fault("a; b; a"), PlanFault::DuplicateId("a".into()));
    assert_eq!(fault("a needs b; b needs a; c"), PlanFault::Cycle);
    assert_eq!(fault("a needs a"), PlanFault::Cycle);
    assert_eq!(fault("x; a needs x, c; b needs a; c needs b"), PlanFault::Cycle);
    assert_eq!(fault("a needs nowhere"), PlanFault::Dangling("a".into()));
}

#[test]
fn plan_with_outputs_lists_their_positions() {
    let plan = plan("c needs a; o = output(1) needs c; a; b; p = output(2)");
    assert_eq!(ids(&plan, &plan.root().outputs), ["o", "p"]);
    assert!(build("").unwrap().root().outputs.is_empty());
}

#[test]
fn nodes_are_found_by_path() {
    let plan = plan("delta; alpha; charlie; bravo");
    for node in ["alpha", "bravo", "charlie", "delta"] {
        assert_eq!(&*plan.node(plan.find(node).unwrap()).id, node);
    }
    assert_eq!(plan.find("echo"), None);
    assert_eq!(plan.find(""), None);
}

#[test]
fn successors_point_back_at_their_conditions() {
    let plan = plan("m needs x, a, x:yes; a; x; n needs a");
    for at in plan.positions() {
        for outgoing in &plan.node(at).successors {
            let condition = &plan.node(outgoing.node).needs[outgoing.condition as usize];
            assert_eq!(condition.source, at);
        }
    }
    let successors: usize = plan.nodes.iter().map(|node| node.successors.len()).sum();
    assert_eq!(successors, 3, "two edges of one source are one condition");
}

#[test]
fn mentions_are_what_expressions_refer_to_once_each() {
    let plan = plan(
        "a; b; c = value({\"x\": \"${{ nodes.b.output }} ${{ nodes.a.status }}\", \"y\": \"${{ nodes.b.failure }}\"}) needs a, b
         d = signal(go-${{ nodes.a.output }}, where signal.x == nodes.b.output) set v = nodes.c.output needs c
         e = switch(nodes.c.output -> x, nodes.gone.output -> y) needs d
         f = delay(${{ nodes.e.output }}) needs e",
    );
    let mentions = |id: &str| ids(&plan, &plan.node(plan.find(id).unwrap()).mentions);
    assert_eq!(mentions("a"), Vec::<String>::new());
    assert_eq!(mentions("c"), ["a", "b"]);
    assert_eq!(mentions("d"), ["a", "b", "c"]);
    assert_eq!(mentions("e"), ["c"]);
    assert_eq!(mentions("f"), ["e"]);
}

#[test]
fn only_what_leads_nowhere_else_is_cancelled_with_a_join() {
    for (text, expected) in [
        ("a; b; j needs a, b join any cancel-rest", &["a", "b"][..]),
        ("a; b; j needs a, b join any", &[]),
        ("a; b; j needs a, b", &[]),
        // b has another use.
        ("a; b; j needs a, b join any cancel-rest; x needs b", &["a"]),
        // A chain, and a side branch that also ends there.
        ("a; a2 needs a; s needs a; j needs a2, s join any cancel-rest", &["a", "a2", "s"]),
        // A side branch that ends elsewhere saves all before it.
        ("a; a2 needs a; s needs a; j needs a2 join any cancel-rest", &["a2"]),
        // What is behind the join is not before it.
        ("a; j needs a join any cancel-rest; x needs j", &["a"]),
        // Written backwards.
        ("j needs a2 join any cancel-rest; a2 needs a; a", &["a2", "a"]),
        // A join inside of another.
        ("a; b; i needs a, b join any; j needs i join any cancel-rest", &["a", "b", "i"]),
    ] {
        let plan = plan(text);
        let join = plan.node(plan.find("j").unwrap());
        assert_eq!(ids(&plan, &join.only_here), expected, "{text}");
    }
}
