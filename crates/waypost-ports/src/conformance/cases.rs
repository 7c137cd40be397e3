//! The list of all cases. Every case is in it once.

/// Makes one test for each case, from a function that makes a [`StoreUnderTest`](crate::conformance::StoreUnderTest).
#[macro_export]
macro_rules! conformance_tests {
    ($make:path) => {
        $crate::conformance_tests! { @cases $make;
            chain: [
                a_frame_on_the_last_one_is_committed,
                a_pipelined_zombie_is_fenced,
                a_takeover_of_the_same_length_fences,
                a_wrong_parent_id_is_fenced,
                a_gap_is_fenced,
                a_first_frame_must_be_first,
                a_repeat_is_committed_at_the_same_time,
                a_repeat_from_the_middle_is_committed,
                a_mixed_batch_refuses_one_frame_only,
                one_batch_may_hold_a_whole_chain,
                side_rows_come_only_with_their_frame,
                a_poisoned_frame_leaves_the_others_alone,
                bytes_are_kept_exactly,
                headers_are_kept_exactly,
                time_never_goes_back,
            ];
            names: [
                a_key_is_given_once,
                a_key_is_given_once_in_one_batch,
                the_first_of_a_batch_gets_the_name,
                taken_idempotency_key_reports_same_or_other_submission,
                a_refused_start_leaves_nothing,
                a_repeated_start_is_committed,
                numbers_never_repeat,
                numbers_never_repeat_after_reopening,
                definitions_are_versioned_by_content,
                definitions_are_found,
            ];
            births: [
                execution_born_with_a_frame_is_claimed_by_any_instance,
                an_ended_execution_is_opened_again_with_another_ones_frame,
                an_execution_that_somebody_else_opened_again_refuses_the_frame,
                a_repeated_frame_gives_birth_once,
                a_fenced_frame_gives_birth_to_none_and_sends_nothing,
                a_taken_number_refuses_the_frame_and_all_its_births,
                a_taken_name_refuses_the_frame_and_all_its_births,
                two_births_of_one_name_are_refused,
                the_rest_of_a_batch_does_not_suffer_from_an_unborn,
                mail_reaches_what_is_born_with_it,
                mail_of_a_frame_wakes_parked_and_reaches_owned_executions,
                mail_of_a_frame_to_ended_and_unknown_executions_is_dropped,
                the_last_frame_of_an_execution_may_send_mail,
                many_births_have_places_of_their_own,
                blobs_of_births_and_their_mail_are_referenced,
                frame_that_was_decided_on_lost_mail_is_fenced,
            ];
            ownership: [
                a_first_frame_makes_an_owned_row,
                owned_execution_is_not_claimed,
                a_parked_execution_is_claimed_when_due,
                a_claim_is_exclusive_and_raises_the_epoch,
                claims_come_in_order_and_in_batches,
                claims_reach_ahead_as_far_as_they_are_asked_to,
                claims_can_be_limited_to_some,
                claim_skips_executions_of_a_newer_log_format,
                a_dead_owner_loses_its_executions,
                a_leaving_owner_hands_over_at_once,
                a_lease_is_as_long_as_was_asked_for,
                heartbeat_returns_the_log_format_all_live_instances_read,
                an_instance_keeps_its_own,
                an_owner_that_never_announced_itself_is_dead,
                an_epoch_never_goes_back,
                an_ended_execution_has_no_row,
                a_reopened_execution_has_a_row_again,
                claim_returns_the_next_due_time,
                a_held_execution_waits_for_its_deadline,
                holding_by_hand_stops_everything_but_resume,
                holding_again_does_not_spin,
                only_the_owner_quarantines,
                reconciliation_returns_owned_executions_not_in_memory,
                claim_for_a_share_takes_nothing_else,
                ownership_survives_reopening_as_claimable,
            ];
            crashes: [
                death_counts_against_executions_in_hand,
                a_death_counts_when_its_data_is_opened_again,
                an_orderly_end_counts_nothing,
                a_claimer_whose_lease_is_over_takes_nothing,
                only_a_death_in_doubt_counts_again,
                execution_about_to_be_decided_is_in_doubt_again,
                suspects_are_taken_alone_and_last,
                progress_clears_the_count,
                a_park_clears_the_count,
                holding_clears_the_count,
                a_fenced_frame_settles_nothing,
                a_reconciliation_counts_nothing,
            ];
            mail: [
                mail_wakes_a_parked_execution,
                mail_before_the_park_wakes_too,
                consumed_mail_does_not_wake,
                receivers_are_found_by_their_ids,
                owners_are_those_of_now,
                births_are_reserved_by_root,
                counts_of_trees_that_ended_long_ago_are_deleted,
                a_held_execution_is_woken_by_resume_and_cancel_only,
                held_with_old_mail_is_ready_only_for_the_right_kind,
                a_message_is_taken_once,
                delivery_distinguishes_ended_and_unknown_executions,
                the_owner_is_named,
                owners_collect_their_mail,
                mail_is_kept_exactly_and_in_order,
                the_end_discards_mail,
                a_fenced_frame_consumes_nothing,
            ];
            topics: [
                a_published_signal_reaches_all_that_wait,
                a_frame_publishes_to_those_who_wait,
                owners_of_those_who_get_a_signal_are_known,
                waits_are_found_by_bounds_of_their_names,
                a_signal_is_kept_for_the_first_that_waits,
                signals_come_one_at_a_time_and_in_order,
                a_signal_stays_for_those_to_whom_another_is_on_its_way,
                a_signal_is_for_those_who_waited_before_it,
                what_an_execution_got_was_for_all_of_its_waits,
                signals_that_nothing_takes_are_limited,
                waits_of_one_execution_share_a_signal,
                a_closed_wait_gets_nothing,
                a_signal_is_kept_for_its_time,
                a_message_is_published_once,
                a_fenced_frame_changes_no_topic,
                both_sides_may_be_in_one_batch,
                a_repeated_frame_publishes_once,
                subscriptions_are_examined_and_repaired,
            ];
            permits: [
                a_free_permit_is_given_at_birth,
                permits_are_given_in_queue_order,
                the_limit_holds,
                one_batch_may_queue_several_executions,
                keys_are_apart,
                a_permit_is_given_once,
                a_repeated_birth_is_one_place,
                execution_that_ends_while_queued_frees_its_place,
                queued_execution_is_claimed_at_its_deadline,
                execution_that_queues_again_keeps_its_place,
                a_permit_is_kept_through_everything,
                permit_queues_survive_reopening,
                a_fenced_frame_gets_no_place,
                reopened_execution_queues_last,
                the_limit_of_the_first_that_waits_counts,
                a_start_without_a_permit_is_rejected,
                the_oldest_is_cancelled,
                only_as_many_are_cancelled_as_needed,
            ];
            permit_queues: [
                permit_queues_show_holders_and_the_first_waiting,
                quarantined_execution_given_a_permit_stays_quarantined,
                a_missing_place_is_made_again,
                permit_row_without_execution_is_found_and_removed,
            ];
            pages: [
                a_log_longer_than_a_page_is_read_whole_and_in_order,
                a_log_that_fits_a_page_has_no_other_end,
                pages_end_where_the_log_ended_when_the_first_was_read,
                pages_begin_with_the_snapshot,
                every_claimed_log_has_its_own_page,
                mail_beyond_a_page_waits_and_is_read_in_the_end,
            ];
            reading: [
                nothing_is_known_of_an_unknown_execution,
                everything_survives_reopening,
                the_latest_snapshot_wins,
                claims_start_from_the_snapshot,
                the_end_discards_an_older_snapshot,
                executions_are_found_by_key,
                lists_are_filtered_and_paged,
                lists_show_where_executions_stand,
                open_waits_are_listed_filtered_and_paged,
                events_are_filtered,
                a_read_is_weighed_before_it_is_made,
                a_rebuild_changes_nothing,
            ];
            lists: [
                several_statuses_keep_the_order,
                lists_are_filtered_by_time,
                lists_are_filtered_by_labels,
                lists_are_filtered_by_conditions,
                lists_are_searched,
                filters_add_up_and_are_paged,
                lists_say_of_when_they_are,
            ];
            feed: [
                the_feed_follows_the_order_of_commits,
                feed_continues_after_a_position,
                pages_of_the_feed_are_bounded_by_bytes,
            ];
            definitions: [
                every_define_moves_the_current_version,
                a_definition_may_be_kept_without_becoming_current,
                defines_of_one_workflow_take_turns,
                the_newest_version_of_each_is_listed,
                the_versions_of_one_are_listed,
            ];
            instances: [
                live_instances_are_listed,
                the_dead_are_listed_while_they_own_something,
                heartbeat_description_is_kept,
                backlog_counts_unclaimed_executions,
            ];
            blob_refs: [
                blobs_of_a_frame_are_referenced,
                blobs_of_mail_are_referenced_before_it_is_consumed,
                blobs_of_a_first_frame_are_referenced,
                refused_frame_references_nothing,
                refused_mail_references_nothing,
                repeated_frame_references_its_blobs_once,
                references_outlive_the_end_of_the_execution,
                frames_with_and_without_blobs_share_a_batch,
                named_blobs_are_listed_once_in_order_and_pages,
                sweep_of_blobs_is_leased_to_one_instance,
            ];
            access: [
                keys_are_kept_exactly_and_in_order,
                the_id_of_a_key_is_given_once,
                a_revoked_key_keeps_its_first_time,
                the_audit_log_is_kept_exactly_and_in_order,
                the_audit_log_is_filtered_and_paged,
            ];
            outbox: [
                endpoints_are_kept_exactly_and_in_order,
                rotated_secret_signs_for_a_day_beside_the_new_one,
                frame_enqueues_for_the_endpoints_that_subscribe,
                repeated_frame_enqueues_once,
                refused_frame_enqueues_nothing,
                births_of_a_frame_enqueue_with_it,
                messages_are_replayed_under_their_names,
                messages_are_listed_in_pages_by_endpoint_and_state,
                messages_are_listed_by_execution_and_handoffs_are_asked_for,
                old_messages_are_trimmed,
                oldest_messages_beyond_the_quota_are_dead,
                deleted_endpoint_takes_its_messages_with_it,
                outbox_is_counted,
            ];
            awaited: [
                awaited_message_without_endpoints_is_reported_with_its_frame,
                awaited_message_is_reported_when_its_last_delivery_is_settled,
                awaited_message_of_a_deleted_endpoint_is_reported_by_the_next_claim,
                awaited_message_counts_deliveries_to_endpoints_that_are_deleted,
                awaited_message_is_reported_with_deliveries_of_long_ago,
            ];
            deliveries: [
                paused_endpoint_collects_and_disabled_one_does_not,
                message_is_claimed_once_until_the_claim_ends,
                messages_of_one_execution_are_claimed_in_order,
                messages_for_triggers_are_left_to_others,
                dead_message_does_not_hold_up_later_ones,
                results_are_recorded,
                claims_keep_to_the_limits_of_caller_and_endpoint,
                cooling_endpoint_gets_one_probe_and_spends_no_other_attempts,
                probe_of_a_dead_instance_is_sent_by_another,
                messages_of_a_dead_instance_are_claimed_before_those_that_wait_for_them,
                claims_of_a_dead_instance_are_released_with_its_lease,
                probe_of_a_dead_instance_is_released_with_its_lease,
            ];
            triggers: [
                triggers_are_kept_exactly,
                deploy_keeps_the_cursor_unless_the_timing_changed,
                version_that_does_not_become_current_registers_nothing,
                trigger_that_a_version_lacks_is_retired_and_counts_from_its_return,
                pause_by_a_person_outlasts_deploys,
                trigger_paused_by_its_definition_is_activated_by_the_next,
                broken_trigger_goes_on_with_another_version,
                move_keeps_the_state_and_may_let_items_fire_again,
                move_that_was_made_from_an_older_cursor_is_not_done,
                change_of_an_unknown_trigger_is_none,
                endpoint_of_a_trigger_of_ends_is_stored_with_it,
            ];
            settlements: [
                due_triggers_are_claimed_once_until_the_claim_ends,
                claim_leaves_out_what_it_names_and_what_is_given_back_is_claimed_at_once,
                settlement_moves_the_cursor_and_ends_the_claim,
                settlement_of_another_seq_or_revision_stores_nothing,
                settled_items_are_remembered_with_their_reasons,
                item_that_is_settled_twice_at_once_is_stored_as_the_first,
                settlement_cancels_executions,
                trigger_with_too_many_dead_letters_is_broken,
                triggers_are_listed_filtered_and_paged,
                fires_and_dead_letters_are_listed_in_pages,
                items_of_a_paused_trigger_are_kept,
                old_items_and_dead_letters_are_trimmed,
                triggers_are_counted,
            ];
            fires: [
                fire_stores_the_item_and_the_cursor_with_the_frame,
                fire_ends_failures_and_a_plain_one_keeps_the_claim,
                time_of_the_last_fire_is_written_in_steps,
                item_fires_once,
                item_outlives_its_execution,
                repeated_first_frame_with_a_fire_is_committed,
                known_item_of_a_paused_trigger_gets_its_execution,
                item_that_started_nothing_is_settled,
                fire_prepared_before_a_change_is_stale,
                fire_of_another_cursor_is_stale,
                refused_first_frame_leaves_nothing_of_its_fire,
                fire_may_ask_for_a_permit,
                idempotency_key_counts_after_the_item,
                fires_of_a_batch_go_in_beside_each_other,
                unfinished_executions_of_a_trigger_are_found,
                item_of_an_unfinished_execution_is_kept,
            ];
            windows: [
                debounce_keeps_the_last_event_until_it_is_quiet,
                debounce_ends_at_its_limit,
                batch_is_due_when_it_is_full_or_old,
                arrivals_of_one_call_keep_their_order,
                item_arrives_once,
                events_that_are_too_large_together_are_two_groups,
                groups_are_claimed_once_until_the_claim_ends,
                flush_deletes_the_group_with_the_first_frame,
                refused_flush_leaves_the_group,
                settlement_deletes_its_group,
                groups_of_a_paused_trigger_wait,
                events_of_a_window_that_a_deploy_takes_away_are_dead_letters,
                events_of_a_retired_trigger_are_dead_letters,
            ];
            throttles: [
                throttle_starts_up_to_its_limit_and_queues_the_rest,
                throttle_counts_from_the_start_of_an_execution,
                keys_of_a_throttle_do_not_hold_each_other_back,
                dropped_event_is_skipped_and_remembered,
                latest_event_takes_the_place_of_the_one_that_waits,
                permit_of_a_dead_instance_is_claimed_by_another,
                refused_fire_keeps_its_permit_and_a_settled_one_returns_it,
                throttle_that_holds_nothing_back_leaves_nothing,
                queue_of_a_throttle_is_bounded,
                events_of_a_paused_throttle_wait,
                deploy_of_another_throttle_is_for_events_that_wait,
                throttle_and_window_of_one_key_are_apart,
                events_of_a_retired_throttle_are_dead_letters,
                throttle_keeps_its_limit_whatever_happens,
            ];
            breakers: [
                breaker_that_never_failed_has_no_row,
                breaker_opens_probes_and_closes,
                breakers_of_other_keys_are_not_affected,
                breaker_is_reset,
                breakers_are_listed_in_pages_by_key,
                breakers_that_mean_nothing_any_more_are_dropped,
                concurrent_failures_are_all_counted_and_one_asker_is_the_probe,
            ];
            hostile: [
                keys_are_only_text,
                idempotency_keys_are_only_text,
                names_of_workflows_are_only_text,
                names_of_definitions_are_only_text,
                labels_are_only_text,
                searched_text_is_only_text,
                mail_is_only_text,
                reasons_are_only_text,
                filters_of_events_are_only_text,
                keys_of_the_api_are_only_text,
                the_audit_log_is_only_text,
            ];
            inspect: [
                executions_come_in_chunks,
                chunks_can_be_limited_to_recently_changed_executions,
                everything_of_an_execution_is_examined,
                examine_distinguishes_states_of_the_owner,
                projections_show_the_appended_events,
                a_missing_control_row_is_made_again,
                a_control_row_is_put_right,
                repair_of_a_changed_execution_does_nothing,
                a_bad_snapshot_is_dropped,
                nothing_is_stray_in_a_healthy_store,
            ];
            inspect_triggers: [
                rows_of_triggers_come_in_pages_as_they_are_stored,
                items_that_name_executions_are_found,
                groups_are_inspected_with_what_they_hold,
                nothing_of_a_healthy_trigger_is_stray,
                repaired_trigger_has_the_derived_row_and_its_groups_follow,
            ];
        }
    };
    (@cases $make:path; $($module:ident: [$($case:ident),* $(,)?];)*) => {
        $(mod $module {
            #[expect(unused_imports, reason = "a path that is absolute needs none of them")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::conformance::$module::$case(&mut $crate::conformance::rig::Rig::new($make()));
                }
            )*
        })*
    };
}
