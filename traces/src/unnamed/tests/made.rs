//! Synthetic traces with the events that `torch.profiler` writes of Megatron-LM on GPUs: operators,
//! nodes of autograd on a thread of their own, messages of NCCL, launches and kernels.

use pipeline::{Costs, Family, Kind, Nanos, Pass, PassTimes, Problem, Shape};
use serde_json::{Value, json};

use crate::{OpType, Operation};

/// How messages say their peer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Peers {
    /// As `Dst Rank` or `Src Rank`.
    Global,
    /// As `Rank` within the group.
    InGroup,
    Unsaid,
}

#[derive(Clone)]
pub(super) struct Made {
    pub(super) shape: Shape,
    pub(super) family: Family,
    /// Pipelines with other data.
    pub(super) replicas: u32,
    pub(super) steps: u64,
    pub(super) peers: Peers,
    /// Whether steps are marked.
    pub(super) marks: bool,
    /// Whether values of a forward and the backward after it are sent together.
    pub(super) together: bool,
}

/// A pass with when it runs, in microseconds.
type Timed = (Pass, u64, u64);

impl Made {
    pub(super) fn new(stages: u64, chunks: u64, microbatches: u64) -> Self {
        let family = if chunks == 1 { Family::OneFOneB } else { Family::Interleaved };
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let (replicas, steps, peers) = (1, 2, Peers::Global);
        Self { shape, family, replicas, steps, peers, marks: true, together: false }
    }

    /// The passes of each stage in one step, as early as they can: F takes 100, B 120, W 80, a hop 10.
    fn timed(&self) -> Vec<Vec<Timed>> {
        let times = PassTimes::new(Nanos(100), Nanos(120), Nanos(80));
        let costs = Costs::uniform(self.shape, times, Nanos(10));
        let schedule = self.family.schedule(&Problem::new(self.shape, costs).unwrap());
        let schedule = schedule.unwrap();
        let is_split = self.family == Family::ZbH1;
        let whole = |pass: Pass| match pass.kind {
            Kind::W if !is_split => None,
            Kind::B if !is_split => Some(Pass { kind: Kind::BW, ..pass }),
            _ => Some(pass),
        };
        let orders: Vec<Vec<Pass>> = schedule
            .orders()
            .iter()
            .map(|order| order.slots().flat_map(|slot| slot.passes()).filter_map(whole).collect())
            .collect();
        let last = self.last();
        let mut done: Vec<Vec<Timed>> = vec![Vec::new(); orders.len()];
        while done.iter().map(Vec::len).sum::<usize>() < orders.iter().map(Vec::len).sum() {
            for (stage, order) in orders.iter().enumerate() {
                let Some(&pass) = order.get(done[stage].len()) else { continue };
                let made = |is: fn(Kind) -> bool, chunk: u16| {
                    let all = done.iter().flatten();
                    let one = |(one, ..): &&Timed| {
                        is(one.kind) && (one.chunk, one.microbatch) == (chunk, pass.microbatch)
                    };
                    all.filter(one).map(|one| one.2 + 10).next()
                };
                let is_backward: fn(Kind) -> bool = |kind| matches!(kind, Kind::B | Kind::BW);
                let ready = match pass.kind {
                    Kind::F if pass.chunk > 0 => made(|kind| kind == Kind::F, pass.chunk - 1),
                    Kind::B | Kind::BW if pass.chunk < last => made(is_backward, pass.chunk + 1),
                    _ => Some(0),
                };
                let Some(ready) = ready else { continue };
                let start = ready.max(done[stage].last().map_or(0, |one| one.2));
                let time = match pass.kind {
                    Kind::F => 100,
                    Kind::B => 120,
                    Kind::W => 80,
                    _ => 200,
                };
                done[stage].push((pass, start, start + time));
            }
        }
        done
    }

    fn last(&self) -> u16 {
        self.shape.chunks() - 1
    }

    fn number(&self, stage: usize, replica: u32) -> u32 {
        u32::try_from(stage).unwrap() * self.replicas + replica
    }

    /// The traces of all ranks.
    pub(super) fn ranks(&self) -> Vec<Value> {
        let timed = self.timed();
        let stages = 0..timed.len();
        let ranks =
            stages.flat_map(|stage| (0..self.replicas).map(move |replica| (stage, replica)));
        ranks.map(|(stage, replica)| self.rank(stage, replica, &timed[stage])).collect()
    }

    fn rank(&self, stage: usize, replica: u32, timed: &[Timed]) -> Value {
        let mut host =
            Host { made: self, stage, replica, events: Vec::new(), now: 0, number: 0, calls: 0 };
        for step in 0..self.steps {
            let begin = host.now;
            host.step(timed, 1_000_000 * (step + 1));
            if self.marks {
                let name = format!("ProfilerStep#{}", step + 3);
                host.event("user_annotation", &name, 1, [begin, host.now], &json!({}));
            }
            host.now += 50;
        }
        // A file has no order.
        host.events.reverse();
        let world = self.shape.stages() * usize::try_from(self.replicas).unwrap();
        let rank = self.number(stage, replica);
        json!({"schemaVersion": 1, "baseTimeNanoseconds": 500,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}, "traceEvents": host.events})
    }

    pub(super) fn expected(&self) -> Vec<Operation> {
        let mut all = Vec::new();
        for step in 0..self.steps {
            for dp_rank in 0..self.replicas {
                for (stage, timed) in (0u16..).zip(self.timed()) {
                    all.extend(timed.into_iter().map(|(pass, start, end)| Operation {
                        step: if self.marks { step + 3 } else { step },
                        dp_rank,
                        stage,
                        optype: OpType::Pass(pass.kind),
                        chunk: pass.chunk,
                        microbatch: pass.microbatch,
                        start: Nanos((1_000_000 * (step + 1) + start) * 1000 + 500),
                        duration: Nanos((end - start) * 1000),
                    }));
                }
            }
        }
        all
    }
}

/// A rank that writes down what it does.
struct Host<'m> {
    made: &'m Made,
    stage: usize,
    replica: u32,
    events: Vec<Value>,
    now: u64,
    /// Sequence number of the next node.
    number: u64,
    /// Correlation of the next kernel.
    calls: u64,
}

impl Host<'_> {
    fn event(&mut self, cat: &str, name: &str, tid: u64, [from, to]: [u64; 2], args: &Value) {
        self.events.push(json!({"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid,
            "ts": from, "dur": to - from, "args": args}));
    }

    /// Launches a kernel now that runs in `times`.
    fn kernel(&mut self, name: &str, stream: u64, times: [u64; 2]) {
        self.calls += 1;
        let correlation = json!({"correlation": self.calls});
        self.event("cuda_runtime", "cudaLaunchKernel", 1, [self.now, self.now], &correlation);
        self.event("kernel", name, stream, times, &correlation);
    }

    /// One microsecond of an operator or a node, and its kernel.
    fn computes(&mut self, name: &str, tid: u64, args: &Value, times: [u64; 2]) {
        self.event("cpu_op", name, tid, [self.now, self.now + 1], args);
        self.kernel("sm90_xmma_gemm_bf16", 7, times);
        self.now += 2;
    }

    fn message(&mut self, is_send: bool, to: usize) {
        let name = if is_send { "c10d::send" } else { "c10d::recv_" };
        self.event("cpu_op", name, 1, [self.now, self.now + 4], &json!({}));
        let group: Vec<u32> = (0..self.made.shape.stages())
            .map(|stage| self.made.number(stage, self.replica))
            .collect();
        let called = if is_send { "send" } else { "recv" };
        let mut args = json!({"Collective name": called, "In msg nelems": 4096, "dtype": "BFloat16",
            "Process Group Name": "5", "Process Group Description": "PIPELINE_MODEL_PARALLEL_GROUP",
            "Process Group Ranks": format!("{group:?}"), "Rank": to, "Group size": group.len()});
        if self.made.peers == Peers::Global {
            let key = if is_send { "Dst Rank" } else { "Src Rank" };
            args[key] = json!(group[to]);
            args["Process Group Ranks"] = json!("[0, ..., 9]");
        }
        if self.made.peers != Peers::Unsaid {
            self.event("cpu_op", "record_param_comms", 1, [self.now + 1, self.now + 3], &args);
        }
        self.kernel(
            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            20,
            [0, 90_000_000],
        );
        self.now += 5;
    }

    fn step(&mut self, timed: &[Timed], origin: u64) {
        let stages = self.made.shape.stages();
        let (next, previous) = ((self.stage + 1) % stages, (self.stage + stages - 1) % stages);
        let first = self.number;
        let mut forwards: Vec<Pass> = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        for (at, &(pass, start, end)) in timed.iter().enumerate() {
            let [start, middle, end] = [start, (start + end) / 2, end].map(|time| time + origin);
            let is_forward = pass.kind == Kind::F;
            if is_forward {
                if pass.chunk > 0 && waiting.is_empty() {
                    self.message(false, previous);
                }
                forwards.push(pass);
                self.forward([start, middle, end]);
            } else {
                let of = forwards
                    .iter()
                    .position(|one| (one.chunk, one.microbatch) == (pass.chunk, pass.microbatch));
                self.backward(
                    pass.kind,
                    first + 2 * u64::try_from(of.unwrap()).unwrap(),
                    [start, middle, end],
                );
            }
            let is_sent = match pass.kind {
                Kind::F => pass.chunk < self.made.last(),
                Kind::W => false,
                _ => pass.chunk > 0,
            };
            if is_sent {
                waiting.push(if is_forward { next } else { previous });
            }
            let then = timed.get(at + 1).map(|(pass, ..)| pass.kind);
            if !(self.made.together && is_forward && then == Some(Kind::BW)) {
                // As Megatron-LM does: to the rank before first.
                waiting.sort_by_key(|to| *to == next);
                std::mem::take(&mut waiting).into_iter().for_each(|to| self.message(true, to));
            }
        }
        self.event("cpu_op", "Optimizer.step#Adam.step", 1, [self.now, self.now + 9], &json!({}));
        self.now += 10;
    }

    fn forward(&mut self, [start, middle, end]: [u64; 3]) {
        let args = |number| json!({"Sequence number": number, "Fwd thread id": 0});
        // Does not make a node; the next one does.
        self.event("cpu_op", "aten::detach", 1, [self.now, self.now], &args(self.number));
        self.now += 1;
        self.computes("aten::linear", 1, &args(self.number), [start, middle]);
        // Between ranks that share the sequence.
        let args_of_send = json!({"Collective name": "send", "Dst Rank": 77,
            "Process Group Description": "CONTEXT_PARALLEL_GROUP"});
        if self.made.peers != Peers::Unsaid {
            self.event("cpu_op", "record_param_comms", 1, [self.now, self.now + 1], &args_of_send);
        }
        self.now += 2;
        self.computes("aten::gelu", 1, &args(self.number + 1), [middle, end]);
        self.number += 2;
    }

    fn backward(&mut self, kind: Kind, number: u64, [start, middle, end]: [u64; 3]) {
        let node = |name| format!("autograd::engine::evaluate_function: {name}");
        let args = |number| json!({"Sequence number": number, "Fwd thread id": 1});
        if kind != Kind::W {
            self.computes(&node("GeluBackward0"), 2, &args(number + 1), [start, middle]);
        }
        if kind != Kind::B {
            // Recomputes on the thread of autograd, with numbers of that.
            let recomputed = json!({"Sequence number": number, "Fwd thread id": 0});
            self.event("cpu_op", "aten::gelu", 2, [self.now, self.now], &recomputed);
            self.computes(&node("MmBackward0"), 2, &args(number), [middle, end]);
        }
        self.kernel("sm90_xmma_gemm_bf16", 7, [start, end]);
        self.kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 21, [middle, end + 60_000]);
        self.computes(&node("torch::autograd::AccumulateGrad"), 2, &json!({}), [middle, end]);
    }
}
