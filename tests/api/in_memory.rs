//! The programs of `programs/` on in-memory nodes. Each program asserts its own results.

use super::programs::{
    account_batch, blocking_migration, gpu_pool, http_fenced_sql, leader_health, price_cache,
    simulated_balance, startup_barrier, two_quorums,
};

#[test]
fn a_service_charges_invoices_under_locks() {
    http_fenced_sql::main().unwrap();
}

#[test]
fn an_instance_leads_and_another_follows() {
    leader_health::main().unwrap();
}

#[test]
fn many_instances_read_prices_and_one_instance_refreshes() {
    price_cache::main().unwrap();
}

#[test]
fn tasks_share_a_pool_of_gpus() {
    gpu_pool::main().unwrap();
}

#[test]
fn batches_of_transfers_lose_no_update() {
    account_batch::main().unwrap();
}

#[test]
fn no_shard_serves_before_all_shards_have_loaded() {
    startup_barrier::main().unwrap();
}

#[test]
fn a_migration_without_async_runs_alone() {
    blocking_migration::run().unwrap();
}

#[test]
fn a_missing_settings_file_has_an_exit_status() {
    blocking_migration::run_without_settings();
}

#[test]
fn a_paused_process_loses_no_update() {
    simulated_balance::a_paused_process_loses_no_update();
}

#[test]
fn an_update_without_a_token_is_lost() {
    simulated_balance::an_update_without_a_token_is_lost();
}

#[test]
fn a_record_moves_under_the_locks_of_two_quorums() {
    two_quorums::main().unwrap();
}
