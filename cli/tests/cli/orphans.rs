//! redquorum as the first process of a container.

use redquorum_tests::Cluster;

use super::{
    redquorum::{code, ended, on, stderr},
    scratch::Scratch,
};

#[tokio::test]
async fn as_the_first_process_of_a_container_it_buries_what_the_command_has_orphaned() {
    let cluster = Cluster::start(1).await;
    for arguments in [&["run", "job"][..], &["elect", "job", "--value", "v"]] {
        let scratch = Scratch::new();
        let file = scratch.file("orphan");
        // Its parent ends at once, and it soon after that. The number is gone when it is buried.
        let script = format!(
            "sh -c 'sleep 0.05 & echo $! > {file}'; orphan=$(cat {file}); tries=0\n\
             while [ -e /proc/$orphan ]; do\n\
               tries=$((tries + 1)); [ $tries -gt 400 ] && exit 9; sleep 0.01\n\
             done\n\
             exit 7"
        );
        let plain = on(&cluster, arguments);
        let plain = plain.as_std();
        let mut container = tokio::process::Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            container.args(["--user", "--map-root-user"]);
        }
        container.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        container.arg(plain.get_program()).args(plain.get_args()).args(["-c", &script]);
        container.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        container.stdin(std::process::Stdio::null());
        container.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let run = ended(container.kill_on_drop(true).spawn().unwrap()).await;
        assert_eq!(code(&run), 7, "{arguments:?}: {}", stderr(&run));
    }
}
