//! A Redis server for one test.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

use redis::{Client, Cmd, Connection, ConnectionLike, FromRedisValue, RedisResult, Value};

use crate::{
    node::{
        Answer, Operation, QuorumParameters, names,
        operation::samples::parameters,
        redis::{
            script::{CallReply, Script, ScriptReference},
            stamp::Stamp,
            tests::server_process::ServerProcess,
        },
        state::NodeTime,
    },
    values::{LeaseId, NodeError, Resource},
};

/// The number of the next server of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A server without persistence that ends with the test, and a connection that has loaded the
/// script.
pub(super) struct Server {
    process: ServerProcess,
    connection: Connection,
    /// The error of the last unpublished notice.
    unpublished: Option<NodeError>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_with([])
    }

    /// Starts a server with further arguments.
    pub(super) fn start_with<const N: usize>(more: [&str; N]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("redquorum-{}-{number}", std::process::id()));
        let arguments = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "redis.sock"];
        let arguments = arguments.into_iter().chain(more).map(str::to_owned).collect();
        let mut process = ServerProcess::start(directory, arguments);
        let client = Self::client(&process, "");
        let connection = process.first_answer(|| client.get_connection().ok());
        let mut server = Self { process, connection, unpublished: None };
        server.load();
        server
    }

    /// Returns a client of this server. `parameters` are further parameters of the url.
    fn client(process: &ServerProcess, parameters: &str) -> Client {
        let socket = process.directory().join("redis.sock");
        Client::open(format!("unix://{}?protocol=resp3{parameters}", socket.display())).unwrap()
    }

    /// Writes node metadata for the fingerprint and incarnation of `parameters`, so that operations
    /// on one resource take the fast paths of the script.
    pub(super) fn register(&mut self) {
        self.register_with(0);
    }

    /// Writes the same node metadata as `register`, with this minimum token.
    pub(super) fn register_with(&mut self, minimum_token: u64) {
        let parameters = parameters();
        let stamp = Stamp::of(&parameters);
        let QuorumParameters { incarnation, fingerprint, .. } = &parameters;
        self.run(&format!(
            "HSET {} stamp {stamp} incarnation {} minimum_token {minimum_token} fingerprint {fingerprint}",
            names::METADATA,
            incarnation.as_deref().unwrap()
        ));
    }

    /// Connects as this ACL user with the password `x`.
    pub(super) fn connect_as(&mut self, user: &str) {
        let client = Self::client(&self.process, &format!("&user={user}&pass=x"));
        self.connection = client.get_connection().unwrap();
    }

    /// Connects as the default user.
    pub(super) fn connect(&mut self) {
        self.connection = Self::client(&self.process, "").get_connection().unwrap();
    }

    /// Returns another connection, which is subscribed to these topics until its drop.
    pub(super) fn listen(&self, topics: impl Iterator<Item = Resource>) -> Connection {
        let mut listener = Self::client(&self.process, "").get_connection().unwrap();
        for topic in topics {
            let mut subscribe = redis::cmd("SUBSCRIBE");
            subscribe.arg(names::notice_channel(&topic));
            listener.send_packed_command(&subscribe.get_packed_command()).unwrap();
            listener.recv_response().unwrap();
        }
        listener
    }

    fn load(&mut self) {
        let reply: Value = self.get(&Script::standalone().load());
        assert_eq!(reply, Value::BulkString(Script::standalone().name().into()));
    }

    pub(super) fn call(&mut self, parameters: &QuorumParameters, operations: &[Operation]) -> Vec<Answer> {
        let reply = self
            .connection
            .req_command(&Script::standalone().command(ScriptReference::Name, parameters, operations))
            .unwrap();
        self.decode(operations, reply)
    }

    fn decode(&mut self, operations: &[Operation], reply: Value) -> Vec<Answer> {
        let CallReply { answers, unpublished, .. } = Script::standalone().decode(operations, reply);
        assert_eq!(answers.len(), operations.len());
        if unpublished.is_some() {
            self.unpublished = unpublished;
        }
        answers
    }

    /// Takes the error of the last unpublished notice since the last call of this method.
    pub(super) fn take_unpublished(&mut self) -> Option<NodeError> {
        self.unpublished.take()
    }

    /// Returns the answers, and the server's time before and after the call.
    pub(super) fn timed_call(
        &mut self,
        parameters: &QuorumParameters,
        operations: &[Operation],
    ) -> (Vec<Answer>, [NodeTime; 2]) {
        let (reply, times) =
            self.timed(&Script::standalone().command(ScriptReference::Name, parameters, operations));
        (self.decode(operations, reply), times)
    }

    /// Returns the reply to a command, and the server's time before and after the command. The
    /// three commands are sent in one pipeline, so the server does not wait for this process
    /// between them, however loaded the machine is.
    pub(super) fn timed(&mut self, command: &Cmd) -> (Value, [NodeTime; 2]) {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME").add_command(command.clone()).cmd("TIME");
        let replies = self.connection.req_packed_commands(&pipe.get_packed_pipeline(), 0, 3).unwrap();
        let [before, reply, after] = <[Value; 3]>::try_from(replies).unwrap();
        let time = |reply| {
            let (seconds, micros): (u64, u64) = redis::from_redis_value(reply).unwrap();
            NodeTime::from_epoch(seconds * 1000 + micros / 1000)
        };
        (reply.extract_error().unwrap(), [time(before), time(after)])
    }

    /// Returns the server's time, and at that time the remaining ttl of each key in milliseconds,
    /// or -1 for a key without a ttl.
    pub(super) fn ttls(&mut self) -> (NodeTime, BTreeMap<Vec<u8>, i64>) {
        const TTLS: &str = "
            local now, keys = redis.call('TIME'), redis.call('KEYS', '*')
            table.sort(keys)
            local ttls = {}
            for index, key in ipairs(keys) do
                ttls[index] = {key, redis.call('PTTL', key)}
            end
            return {now[1] * 1000 + math.floor(now[2] / 1000), ttls}";
        let (now, ttls): (u64, Vec<(Vec<u8>, i64)>) = self.get(redis::cmd("EVAL").arg(TTLS).arg(0));
        (NodeTime::from_epoch(now), ttls.into_iter().collect())
    }

    pub(super) fn one(&mut self, parameters: &QuorumParameters, operation: &Operation) -> Answer {
        self.call(parameters, std::slice::from_ref(operation)).remove(0)
    }

    pub(super) fn get<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        self.try_get(command).unwrap()
    }

    pub(super) fn try_get<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        command.query(&mut self.connection)
    }

    /// Executes a command, whose words are separated by single spaces.
    pub(super) fn run(&mut self, line: &str) {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        self.get::<Value>(&command);
    }

    /// Returns the server's incarnation.
    pub(super) fn incarnation_of_data(&mut self) -> String {
        let mut field = |section: &str, name: &str| {
            let info: String = self.get(redis::cmd("INFO").arg(section));
            info.lines().find_map(|line| line.strip_prefix(name)).expect("INFO has the field").to_owned()
        };
        format!("{}/{}", field("server", "run_id:"), field("replication", "master_replid:"))
    }

    /// Returns the server's time in whole seconds.
    pub(super) fn seconds(&mut self) -> u64 {
        let (seconds, _): (u64, u64) = self.get(&redis::cmd("TIME"));
        seconds
    }

    pub(super) fn ttl(&mut self, key: &[u8]) -> i64 {
        self.get(redis::cmd("PTTL").arg(key))
    }

    /// Returns all keys, sorted.
    pub(super) fn keys(&mut self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.get(redis::cmd("KEYS").arg("*"));
        keys.sort();
        keys
    }

    pub(super) fn holds(&mut self, resource: &Resource, lease_id: &LeaseId) -> Option<u32> {
        self.get(redis::cmd("HGET").arg(resource.as_bytes()).arg(lease_id.as_bytes()))
    }

    pub(super) fn counter(&mut self, resource: &Resource) -> Option<u64> {
        self.get(redis::cmd("GET").arg(names::counter(resource)))
    }
}
