use super::*;

#[test]
fn the_page_names_explains_and_shows_every_metric() {
    let metrics = EngineMetrics::default();
    metrics.slots.set(4);
    metrics.executions_started_total.add(3);
    metrics.executions_ended_total.add("FAILED", 2);
    metrics.attempts_ended_total.add("abandoned", 1);
    metrics.look_at(&Queue {
        depth: 7,
        oldest: waypost_core::time::Millis(61_500),
        too_long: 1,
        scheduled_too_long: 0,
    });
    metrics.appended(3, Duration::from_micros(1_700));
    let mut page = String::new();
    metrics.render(&mut page);
    let beginning = concat!(
        "# HELP waypost_queue_depth Nodes that wait for a slot or a remote worker.\n",
        "# TYPE waypost_queue_depth gauge\n",
        "waypost_queue_depth 7\n",
        "# HELP waypost_queue_oldest_age_seconds ",
        "Age of the oldest queued node.\n",
        "# TYPE waypost_queue_oldest_age_seconds gauge\n",
        "waypost_queue_oldest_age_seconds 61.5\n",
    );
    assert!(page.starts_with(beginning), "{page}");
    for line in [
        "waypost_nodes_queued_too_long 1",
        "# TYPE waypost_schedule_to_start_seconds histogram",
        "waypost_append_seconds_bucket{le=\"0.001\"} 0",
        "waypost_append_seconds_bucket{le=\"0.0025\"} 1",
        "waypost_append_seconds_bucket{le=\"+Inf\"} 1",
        "waypost_append_seconds_sum 0.0017",
        "waypost_append_seconds_count 1",
        "waypost_append_frames_bucket{le=\"2\"} 0",
        "waypost_append_frames_bucket{le=\"4\"} 1",
        "waypost_append_frames_sum 3",
        "waypost_timer_lateness_seconds_count 0",
        "waypost_takeovers_total 0",
        "waypost_report_to_commit_seconds_count 0",
        "waypost_executions_started_total 3",
        "waypost_executions_ended_total{status=\"COMPLETED\"} 0",
        "waypost_executions_ended_total{status=\"FAILED\"} 2",
        "waypost_executions_active 0",
        "waypost_attempts_ended_total{outcome=\"abandoned\"} 1",
        "waypost_executions_quarantined_total 0",
        "waypost_commits_fenced_total 0",
        "waypost_claims_total 0",
        "waypost_ownership_lost_total 0",
        "waypost_executions_scheduled_too_long 0",
        "waypost_reports_relayed_total{outcome=\"unanswered\"} 0",
        "waypost_slots_busy 0",
        "waypost_slots 4",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
    }
    assert!(page.ends_with('\n'));
    metrics.each(|name, _, metric| {
        assert!(page.contains(&format!("# TYPE {name} {}\n", metric.kind())), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind() == "counter", "{name}");
    });
}
