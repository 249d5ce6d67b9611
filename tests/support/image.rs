//! The image of the containers, built from the server program that is installed on this machine.

#![cfg_attr(
    not(redquorum_containers),
    allow(dead_code, reason = "a build without containers does not use this module")
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::docker::{docker, output};
use super::server_process::{
    lock_file,
    program::{HOW_TO_GET_ONE, find_server},
};

/// The top-level domain `.invalid` is reserved (RFC 2606), so no registry can serve an image of this name.
pub(super) const NAME: &str = "redquorum.invalid/test-redis";

/// An image that the engine has.
#[derive(Debug, Clone)]
pub(super) struct Image {
    tag: String,
}

impl Image {
    pub(super) fn tag(&self) -> &str {
        &self.tag
    }
}

/// Returns the image of the installed server. If the engine does not have the image, one test process builds
/// it while others wait.
///
/// # Errors
///
/// If the engine does not answer, or if there is neither an image nor a server program.
pub(super) fn ensure() -> Result<Image, String> {
    static IMAGE: OnceLock<Result<Image, String>> = OnceLock::new();
    IMAGE.get_or_init(find_or_build).clone()
}

fn find_or_build() -> Result<Image, String> {
    let Some(program) = find_server() else {
        return newest()
            .ok_or_else(|| format!("there is no server to build an image from: {HOW_TO_GET_ONE}"));
    };
    let tag = tag_of(&program)?;
    let lock = lock_file::open("image")?;
    lock.lock().map_err(|error| format!("the lock of the image: {error}"))?;
    if docker(&["image", "inspect", "--format", "{{.Id}}", &format!("{NAME}:{tag}")]).is_err() {
        import(&program, &tag)?;
    }
    Ok(Image { tag })
}

fn newest() -> Option<Image> {
    let tags = docker(&["images", "--format", "{{.Tag}}", NAME]).ok()?;
    Some(Image { tag: tags.lines().next()?.to_owned() })
}

/// Returns the version and the build of the server, so that an upgraded server gets a new image.
fn tag_of(program: &Path) -> Result<String, String> {
    let version = output(Command::new(program).arg("--version"))?;
    let field =
        |name| version.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or("unknown");
    Ok(format!("{}-{}", field("v="), field("build=")))
}

/// Builds an image with the server, its shared libraries and its loader, under their paths on this machine.
fn import(program: &Path, tag: &str) -> Result<(), String> {
    let libraries = shared_libraries(program)?;
    let folders: BTreeSet<_> =
        libraries.iter().filter_map(|library| library.rsplit_once('/')).map(|(f, _)| f).collect();
    let folders: Vec<_> = folders.into_iter().collect();
    let mut tar = Command::new("tar")
        .args(["--create", "--dereference", "--absolute-names", "--file", "-"])
        .arg(program)
        .args(&libraries)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("tar: {error}"))?;
    let archive = tar.stdout.take().ok_or("tar has no output")?;
    let id = output(
        Command::new("docker")
            .args(["import", "--change", &format!("ENTRYPOINT [\"{}\"]", program.display())])
            .args(["--change", &format!("ENV LD_LIBRARY_PATH={}", folders.join(":"))])
            .args(["--change", "WORKDIR /data", "-"])
            .stdin(archive),
    )?;
    // The image gets its name last, because other test processes look for the name.
    if !tar.wait().is_ok_and(|status| status.success()) {
        return Err("tar could not read the files of the server".to_owned());
    }
    docker(&["tag", &id, &format!("{NAME}:{tag}")]).map(drop)
}

/// Returns each absolute path in the output of `ldd`: the libraries and the loader.
fn shared_libraries(program: &Path) -> Result<BTreeSet<String>, String> {
    let list = output(Command::new("ldd").arg(program))?;
    Ok(list.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}
