//! The table of examples (`node/examples/table.txt`) on a real server.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use redis::{Connection, PushKind, Value};

use crate::node::{
    Answer, Operation,
    examples::{self, ExampleNode},
    names,
    operation::samples::{parameters, resource},
    redis::script::tests::server::Server,
    state::NodeTime,
};

/// A script that lets time pass for all keys: their ttls become shorter, and expired keys are deleted.
const WAIT: &str = "
    for _, key in ipairs(redis.call('KEYS', '*')) do
        if string.find(key, '^redquorum:readers:') or string.find(key, '^redquorum:entry_ttl:') then
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
                redis.call('ZINCRBY', key, -ARGV[1], member)
            end
        end
        local ttl = redis.call('PTTL', key)
        if ttl >= 0 and ttl < tonumber(ARGV[1]) then
            redis.call('DEL', key)
        elseif ttl >= 0 then
            redis.call('PEXPIRE', key, ttl - ARGV[1])
        end
    end";

/// A server without data for one example, and a connection that receives all notices.
struct ExampleServer {
    server: Rc<RefCell<Server>>,
    listener: Connection,
    started: NodeTime,
}

impl ExampleServer {
    fn new(server: &Rc<RefCell<Server>>, is_registered: bool) -> Self {
        let mut running = server.borrow_mut();
        running.connect();
        running.run("FLUSHALL");
        if is_registered {
            running.register();
        }
        let mut listener = running.listen(std::iter::empty());
        let mut subscribe = redis::cmd("PSUBSCRIBE");
        listener.send_packed_command(&subscribe.arg("*").get_packed_command()).unwrap();
        let (started, _) = running.ttls();
        drop(running);
        Self { server: Rc::clone(server), listener, started }
    }
}

impl ExampleNode for ExampleServer {
    fn ask(&mut self, operation: &Operation) -> Answer {
        self.server.borrow_mut().one(&parameters(), operation)
    }

    fn set_counter(&mut self, name: &str, value: u64) {
        let mut command = redis::cmd("SET");
        command.arg(names::counter(&resource(name))).arg(value).arg("PX").arg(7_200_000);
        self.server.borrow_mut().get::<Value>(&command);
    }

    fn set_metadata(&mut self, minimum_token: u64, fingerprint: &str) {
        let mut server = self.server.borrow_mut();
        server.run(&format!("DEL {}", names::METADATA));
        if fingerprint == parameters().fingerprint.as_str() {
            server.register_with(minimum_token);
        } else {
            server.run(&format!(
                "HSET {} incarnation r minimum_token {minimum_token} fingerprint {fingerprint}",
                names::METADATA
            ));
        }
    }

    fn lose(&mut self, name: &str) {
        self.server.borrow_mut().run(&format!("DEL {name}"));
    }

    fn wait(&mut self, milliseconds: u64) {
        self.server.borrow_mut().get::<Value>(redis::cmd("EVAL").arg(WAIT).arg(0).arg(milliseconds));
    }

    fn counter(&mut self, name: &str) -> Option<u64> {
        self.server.borrow_mut().counter(&resource(name))
    }

    fn lease_id(&mut self, name: &str) -> Option<String> {
        let lease_ids: Vec<String> = self.server.borrow_mut().get(redis::cmd("HKEYS").arg(name));
        (!lease_ids.is_empty()).then(|| lease_ids.join(" "))
    }

    fn holds(&mut self, name: &str) -> Option<u32> {
        let holds: Vec<u32> = self.server.borrow_mut().get(redis::cmd("HVALS").arg(name));
        holds.into_iter().next()
    }

    fn ttl(&mut self, name: &str) -> Option<Duration> {
        let ttl = self.server.borrow_mut().ttl(name.as_bytes());
        u64::try_from(ttl).ok().map(Duration::from_millis)
    }

    fn readers(&mut self, name: &str) -> Option<(String, Vec<String>)> {
        let mut server = self.server.borrow_mut();
        let votes: Option<String> = server.get(redis::cmd("HGET").arg(name).arg("redquorum:shared"));
        let key = names::readers(&resource(name));
        let mut readers: Vec<String> = server.get(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1));
        readers.sort();
        (votes.is_some() || !readers.is_empty()).then(|| (votes.unwrap_or_default(), readers))
    }

    fn take_channels(&mut self) -> Vec<Vec<u8>> {
        self.listener.send_packed_command(&redis::cmd("PING").get_packed_command()).unwrap();
        let mut channels = Vec::new();
        loop {
            match self.listener.recv_response().unwrap() {
                Value::Push { kind: PushKind::PMessage, data } => {
                    let Some(Value::BulkString(channel)) = data.into_iter().nth(1) else {
                        panic!("no channel")
                    };
                    channels.push(channel);
                }
                Value::Push { .. } => {}
                _ => return channels,
            }
        }
    }

    fn mute(&mut self) {
        let mut server = self.server.borrow_mut();
        server.run("ACL SETUSER mute on >x ~* resetchannels +@all");
        server.connect_as("mute");
    }

    fn take_unpublished(&mut self) -> bool {
        self.server.borrow_mut().take_unpublished().is_some()
    }

    fn contents(&mut self) -> String {
        let mut server = self.server.borrow_mut();
        let keys = server.keys().into_iter().filter(|key| key != names::DIRTY.as_bytes());
        let keys: Vec<_> = keys.collect();
        let mut contents = BTreeMap::new();
        for key in keys {
            let value: Vec<u8> = server.get(redis::cmd("DUMP").arg(&key));
            contents.insert(key.escape_ascii().to_string(), value.escape_ascii().to_string());
        }
        format!("{contents:?}")
    }

    fn elapsed(&mut self) -> Duration {
        let (now, _) = self.server.borrow_mut().ttls();
        now.since_epoch().saturating_sub(self.started.since_epoch())
    }
}

/// Registered nodes take the fast paths of the script, and unregistered nodes take the general paths.
#[test]
fn the_script_passes_the_examples_registered_and_unregistered() {
    let server = Rc::new(RefCell::new(Server::start()));
    for is_registered in [false, true] {
        examples::run(|| ExampleServer::new(&server, is_registered));
    }
}
