//! Contract tests for every implementation of `Store`, run with [`store_contract!`](crate::store_contract). Each check
//! gets an empty database.

#![expect(clippy::unwrap_used, reason = "a check that cannot go on has found something")]

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Change, Conflict, Store, StoreError};

pub mod access;
pub mod accounts;
pub mod approvals;
pub mod audit;
pub mod calls;
pub mod commits;
pub mod consent_sample;
pub mod direct_messages;
pub mod directory;
pub mod drafts;
pub mod erasure;
pub mod executions;
pub mod followed;
pub mod idempotency;
pub mod jobs;
pub mod keyring;
pub mod mail;
pub mod messages;
pub mod nodes;
pub mod people;
pub mod relations;
pub mod relay_sample;
pub mod relayed;
pub mod sample;
pub mod seal_keys;
pub mod sessions;
pub mod stored_bytes;
pub mod tasks;
pub mod turns;
pub mod webhooks;

/// A database that a check can open and reopen.
#[async_trait]
pub trait TestDatabase: Send + Sync {
    /// Opens the store with everything committed before.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Generates a test for every check. The expression creates an empty [`TestDatabase`].
#[macro_export]
macro_rules! store_contract {
    ($place:expr) => {
        $crate::store_contract! { @tests $place;
            sessions {
                session_round_trips,
                unknown_session_is_not_found,
                duplicate_session_id_is_refused,
                sessions_are_listed_newest_first,
                session_pages_have_no_gaps_or_repetitions,
                pages_of_sessions_with_equal_times_have_no_gaps_or_repetitions,
                sessions_of_other_owners_are_not_listed,
                deleting_a_session_deletes_its_messages_turns_and_idempotency_records,
                deleting_unknown_session_is_refused,
                new_pending_calls_replace_the_previous_ones,
                pending_calls_for_unknown_session_are_refused,
                second_summary_replaces_the_first,
                only_idle_sessions_without_running_turn_are_listed_and_pruned,
            }
            turns {
                turn_state_and_events_are_stored_at_begin_and_end,
                beginning_a_turn_stores_changed_session_settings,
                turns_run_one_at_a_time_and_in_order,
                turn_of_unknown_session_is_refused,
                turn_ends_only_once,
                running_turns_are_listed,
                numbers_above_i64_max_are_not_found_and_refused_in_commits,
                only_one_of_many_concurrent_turn_begins_succeeds,
            }
            nodes {
                node_round_trips_and_registers_once,
                joining_alone_is_refused_while_another_node_is_alive,
                declaring_all_dead_leaves_nodes_that_join_afterwards_alive,
                only_dead_nodes_that_started_before_the_limit_are_forgotten,
                commits_of_a_dead_incarnation_are_refused_and_change_nothing,
                incarnation_is_fenced_from_the_commit_that_declares_it_dead,
                unfinished_work_of_every_kind_is_orphaned_when_its_owner_is_not_alive,
                work_of_living_nodes_and_work_without_an_owner_is_not_orphaned,
                work_is_listed_by_the_incarnation_that_runs_it,
            }
            messages {
                messages_are_read_in_order,
                messages_may_be_stored_out_of_number_order,
                second_message_with_the_same_number_is_refused,
                message_for_unknown_session_is_refused,
                reading_messages_starts_at_the_given_number,
                messages_before_a_number_are_read_newest_first_up_to_the_limit,
                system_messages_are_found_among_those_that_a_session_began_with,
                unknown_message_fields_are_preserved,
            }
            keyring {
                keyring_entry_round_trips,
                second_keyring_entry_of_a_name_is_refused,
                keyring_entry_is_replaced_only_from_the_revision_that_was_read,
                only_one_of_many_concurrent_keyring_entries_is_created,
                store_info_is_put_replaced_and_removed,
                sealed_value_is_replaced_only_if_it_is_as_it_was_read,
                status_has_the_size_of_every_table_and_unfinished_work,
            }
            idempotency {
                idempotency_record_round_trips,
                reused_idempotency_key_is_refused,
                same_idempotency_key_is_allowed_for_another_owner_or_request,
                idempotency_record_for_unknown_session_is_refused,
                idempotency_record_is_deleted_with_its_session,
            }
            access {
                api_keys_are_listed_oldest_first,
                duplicate_key_id_is_refused,
                key_is_revoked_only_once,
                key_rotation_changes_secret_and_expiry_but_not_name_or_scopes,
                rotation_of_missing_revoked_or_already_rotated_key_is_refused,
                only_one_of_many_concurrent_key_rotations_succeeds,
                grants_are_listed_oldest_first,
                duplicate_grant_id_is_refused,
                grant_is_revoked_only_once,
                one_time_grant_is_used_only_once,
                only_one_of_many_concurrent_grant_uses_succeeds,
            }
            approvals {
                approval_round_trips,
                duplicate_approval_id_is_refused,
                approval_changes_only_from_the_state_that_was_read,
                changing_unknown_approval_is_refused,
                pending_approvals_are_listed_oldest_first,
                only_one_of_many_concurrent_decisions_succeeds,
            }
            calls {
                started_calls_are_stored_until_they_end,
                duplicate_key_of_a_started_call_is_refused,
                started_call_survives_deletion_of_its_session,
            }
            audit {
                new_audit_chain_is_empty,
                audit_records_are_chained_in_commit_order,
                audit_records_are_read_in_pages,
                failed_commit_leaves_no_audit_record,
                audit_chain_verifies_after_concurrent_commits,
                audit_records_are_found_by_call,
                pruning_deletes_oldest_audit_records_and_the_rest_still_verifies,
                audit_growth_rises_by_one_with_each_committed_record,
                chain_links_are_read_in_order_and_by_position,
            }
            erasure {
                erasure_deletes_rows_of_the_person_and_keeps_those_of_others,
                redacted_audit_records_keep_their_hashes,
                redacted_ledger_entries_replace_the_ledger_of_an_erased_person,
                group_conversation_continues_after_erasure_of_a_member,
                erasure_replaces_the_persons_name_with_a_pseudonym_in_other_rows,
            }
            stored_bytes {
                session_bytes_count_for_their_owner_until_deletion,
                execution_bytes_count_for_their_caller_until_deletion,
                bytes_stored_by_the_local_caller_are_not_counted,
                failed_commit_adds_no_stored_bytes,
                bytes_of_messages_and_manifests_count_for_their_authors,
            }
            executions {
                execution_round_trips,
                failed_and_timed_out_executions_round_trip,
                duplicate_execution_id_is_refused,
                reused_idempotency_key_is_refused,
                begun_calls_are_listed_with_their_authorization_until_finished,
                only_the_owner_finishes_its_attempt,
                only_the_owner_marks_an_attempt_as_started,
                attempts_whose_program_never_started_are_counted_once,
                execution_may_be_created_with_its_first_attempt_begun,
                same_idempotency_key_is_allowed_for_another_caller_or_skill,
                claim_must_name_the_current_owner_and_attempt,
                attempts_begin_in_order_and_only_by_the_owner,
                execution_ends_once_and_only_by_the_owner,
                unfinished_executions_are_listed_oldest_first,
                update_time_of_an_execution_never_decreases,
                ended_executions_are_deleted_after_their_retention,
                deletion_of_old_executions_respects_its_limit,
                only_one_of_many_concurrent_creations_with_one_key_succeeds,
                only_one_of_many_concurrent_claims_succeeds,
                executions_survive_reopening,
            }
            jobs {
                first_jobs_of_lanes_are_listed_in_due_order,
                second_job_with_the_same_key_replaces_the_first,
                job_is_stored_atomically_with_its_cause,
                due_jobs_are_claimed_once_the_longest_due_first,
                only_one_of_many_concurrent_claims_gets_a_job,
                receiver_gets_no_more_jobs_than_it_has_free_places,
                expired_claim_is_replaced_by_one_with_a_higher_term,
                expired_claim_of_a_job_that_still_runs_is_not_replaced_by_its_own_node,
                claim_holds_only_for_its_incarnation_and_term,
                delayed_job_is_claimed_again_at_its_new_time,
                renewed_claim_holds_longer,
                job_that_is_put_again_keeps_its_claim,
                only_the_first_job_of_a_lane_is_claimed,
                hastened_jobs_are_due_at_that_time_or_earlier,
                claims_of_a_dead_incarnation_are_released,
                claims_by_a_dead_incarnation_are_refused,
                times_of_jobs_tell_what_can_be_claimed_now_and_next,
                jobs_survive_reopening,
            }
            tasks {
                task_round_trips,
                duplicate_task_id_is_refused,
                task_changes_only_from_the_state_that_was_read,
                changing_unknown_task_is_refused,
                open_tasks_are_listed_oldest_first,
                only_one_of_many_concurrent_task_takers_succeeds,
            }
            followed {
                followed_domain_round_trips,
                followed_domains_are_listed_by_name,
                following_a_domain_twice_is_refused,
                offers_of_a_followed_domain_are_kept_until_replaced,
                updating_or_unfollowing_a_domain_not_followed_is_refused,
                followed_domains_survive_reopening,
            }
            directory {
                listing_round_trips,
                second_listing_of_a_url_replaces_the_first,
                listing_update_keeps_description_and_needs_an_existing_listing,
                listing_is_removed_only_once,
                listings_survive_reopening,
            }
            drafts {
                draft_round_trips,
                duplicate_draft_id_or_key_is_refused,
                draft_changes_only_from_the_state_that_was_read,
                open_drafts_are_listed_oldest_first,
                expired_drafts_are_deleted_unless_both_accepted,
                only_one_of_many_concurrent_decisions_succeeds,
                drafts_survive_reopening,
            }
            direct_messages {
                pending_reply_can_be_replaced_and_removed,
                pending_reply_is_deleted_with_its_session,
                first_reply_of_the_recipient_is_stored_with_its_message,
                old_direct_messages_are_deleted,
                person_link_can_be_replaced_and_removed_once,
                direct_messages_survive_reopening,
            }
            people {
                people_are_stored_once_and_listed_by_name,
                invite_for_unknown_person_or_with_duplicate_code_is_refused,
                invite_enrols_only_one_device,
                only_one_of_many_concurrent_enrolments_with_one_invite_succeeds,
                device_is_revoked_only_once,
                nonce_is_accepted_only_once_until_its_retention_ends,
            }
            accounts {
                account_round_trips,
                duplicate_account_id_is_refused,
                account_changes_only_from_the_revision_that_was_read,
                accounts_are_listed_by_owner,
                public_accounts_are_found_by_search_words,
                publication_stores_manifest_account_and_name_history_together,
                manifest_versions_are_listed_newest_first,
                only_one_of_many_concurrent_publications_succeeds,
            }
            relations {
                relation_round_trips,
                relation_needs_known_person_and_agent_and_current_manifest_version,
                second_active_relation_is_refused,
                relation_changes_only_from_the_revision_that_was_read,
                relation_change_invalidates_concurrent_publication,
                one_time_grant_is_used_only_once,
                ledger_entry_must_have_the_next_sequence_number,
                relations_survive_reopening,
            }
            mail {
                mail_is_numbered_per_recipient,
                concurrent_mail_is_numbered_without_gaps,
                each_mail_reader_has_its_own_read_position,
                deleted_mail_numbers_are_not_reused,
                audit_events_are_chained_together_with_call_records,
            }
            relayed {
                conversation_round_trips,
                duplicate_conversation_id_or_pair_is_refused,
                conversations_are_listed_by_id_per_member,
                conversation_members_can_be_added_and_removed,
                conversation_changes_only_from_the_previous_revision,
                relayed_message_round_trips,
                concurrent_messages_are_numbered_without_gaps,
                message_for_outdated_conversation_revision_is_refused,
                reused_client_message_id_of_a_sender_is_refused,
                only_one_of_many_concurrent_posts_with_one_client_id_succeeds,
                message_notifies_members_and_advances_senders_position,
                read_position_never_decreases_or_exceeds_the_last_message,
                reading_relayed_messages_starts_after_the_given_number,
                message_is_claimed_by_only_one_device,
                only_one_of_many_concurrent_claims_succeeds,
                tool_calls_are_found_from_a_time_on,
                deleted_message_numbers_are_not_reused,
                old_message_deletion_keeps_newer_messages_after_the_clock_was_set_back,
                conversations_survive_reopening,
            }
            seal_keys {
                key_bundle_round_trips,
                key_bundle_with_lower_or_equal_sequence_number_is_refused,
                owners_may_use_the_same_device_id_for_their_bundles,
                new_agent_bundle_replaces_the_bundle_of_its_previous_device,
                one_time_keys_are_handed_out_oldest_first,
                only_one_of_many_concurrent_takers_of_a_key_succeeds,
                upload_keeps_one_time_keys_and_replaces_fallback_key,
                oldest_one_time_keys_over_limit_are_deleted,
                one_time_keys_without_bundle_are_refused,
                new_olm_key_deletes_one_time_keys,
                removing_a_bundle_deletes_its_keys,
                bundle_endorsement_by_another_device_is_stored,
                key_backup_can_be_replaced_and_removed_once,
                key_bundles_survive_reopening,
            }
            webhooks {
                webhook_round_trips_and_is_listed,
                mail_to_webhook_agent_creates_delivery,
                message_to_webhook_agent_creates_delivery,
                deliveries_of_each_conversation_are_ordered_separately,
                disabled_webhook_gets_no_new_deliveries,
                removing_webhook_deletes_its_deliveries_and_probes,
                finished_delivery_is_logged_once,
                delivery_of_a_deleted_notification_is_not_the_first,
                old_delivery_log_entries_are_deleted,
                webhooks_survive_reopening,
            }
            commits {
                empty_commit_succeeds,
                failed_commit_changes_nothing,
                failed_commit_does_not_affect_concurrent_commits,
                later_changes_of_a_commit_see_earlier_ones,
                commits_survive_reopening,
                commits_whose_callers_gave_up_are_stored_completely_or_not_at_all,
                healthy_store_passes_write_check_compaction_and_damage_check,
            }
        }
    };
    (@tests $place:expr; $($module:ident { $($check:ident),* $(,)? })*) => {
        $(mod $module {
            use super::*;
            $(
                #[::tokio::test(flavor = "multi_thread")]
                async fn $check() {
                    $crate::contract::$module::$check(&$place).await;
                }
            )*
        })*
    };
}

/// Commits changes that must be refused, and returns the conflict.
async fn refusal(store: &dyn Store, changes: impl Into<Vec<Change>>) -> Conflict {
    match store.commit(changes.into()).await {
        Err(StoreError::Conflict(conflict)) => conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// Commits changes that must succeed.
async fn made(store: &dyn Store, changes: impl Into<Vec<Change>>) {
    store.commit(changes.into()).await.unwrap();
}

/// Commits every list of changes concurrently and returns the results in order.
async fn race(store: &Arc<dyn Store>, units: impl IntoIterator<Item = Vec<Change>>) -> Vec<Result<(), StoreError>> {
    let tasks: Vec<_> = units
        .into_iter()
        .map(|unit| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.commit(unit).await })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

/// Asserts that exactly one commit succeeded and all others failed with `conflict`.
fn assert_one_winner(outcomes: &[Result<(), StoreError>], conflict: Conflict) {
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let lost = outcomes.iter().filter(|outcome| **outcome == Err(StoreError::Conflict(conflict))).count();
    assert_eq!((won, lost), (1, outcomes.len() - 1), "{outcomes:?}");
}
