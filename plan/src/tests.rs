//! Formulas against published figures, and laws that hold of every set-up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pipeline::{Bytes, Family, Vocabulary};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;
use sim::Replay;
use sim::cluster::{Bandwidth, Host};
use sim::straggler::{Jitter, Stragglers, Target};

use crate::{
    Attention, Biases, Boundary, Cluster, Cut, Efficiency, Experts, Ground, Machine, Measured,
    Norm, Orders, Price, Recipe, Recompute, Rejected, Reliability, Setup, Sizes, SlowDevice, Space,
    Split, Straggler, Times, Transformer, Unrest, Watch, Zero, footprint, number, percentiles,
    search, search_with,
};

fn gpt(layers: u64, hidden: u64, heads: u64) -> Sizes {
    Sizes {
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_size: hidden / heads,
        ffn: 4 * hidden,
        gated: false,
        vocabulary: 51_200,
        sequence: 2048,
        positions: 2048,
        experts: None,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        attention: Attention::Core,
    }
}

fn llama(
    layers: u64,
    hidden: u64,
    [heads, kv_heads]: [u64; 2],
    ffn: u64,
    vocabulary: u64,
) -> Sizes {
    Sizes {
        kv_heads,
        ffn,
        gated: true,
        vocabulary,
        positions: 0,
        tied: false,
        biases: Biases::default(),
        norm: Norm::Rms,
        attention: Attention::Flash,
        ..gpt(layers, hidden, heads)
    }
}

fn machine() -> Machine {
    Machine {
        name: "a100".to_owned(),
        device: None,
        memory: Bytes(80_000_000_000),
        peak: 312e12,
        peak_fp8: None,
        bandwidth: 2039e9,
        node: 8,
        link: 300e9,
        network: 25e9,
        host: Some(Host {
            bandwidth: Bandwidth::new(30_000_000_000).unwrap(),
            devices_per_link: 2,
        }),
        efficiency: Efficiency {
            matmul: 0.79,
            fill: 1.5e6,
            depth: 48.0,
            flash: 0.5,
            memory: 0.78,
            link: 0.74,
            ring: 0.3,
            shared_ring: 1.0,
            tensor_network: 0.45,
            hop: 0.87,
            collective_latency: 34e-6,
            hop_latency: 250e-6,
            launch: 3.4e-3,
            launch_tensor: 1.08,
        },
        price: Price { on_demand: 2.0, reserved: None, spot: None },
        reliability: Reliability { hours_between_failures: 5e4, restart: 600.0, checkpoint: 2e9 },
        measured: None,
    }
}

fn recipe(batch: u64) -> Recipe {
    Recipe {
        batch,
        gradient_bytes: 4,
        optimizer_bytes: 12,
        sequence_parallel: true,
        scatter_gather: true,
        overlap_gradients: true,
        boundary: Boundary::Barrier,
        reserved: Bytes(1 << 30),
    }
}

fn setup([data, tensor, pipeline]: [u64; 3]) -> Setup {
    Setup {
        data,
        tensor,
        pipeline,
        context: 1,
        expert: 1,
        zero: Zero::Optimizer,
        microbatch: 1,
        chunks: 1,
        family: Family::OneFOneB,
        recompute: Recompute::None,
        split: Split::Balanced,
        vocabulary_parallel: false,
    }
}

fn model(sizes: Sizes) -> Transformer {
    Transformer::new(sizes).unwrap()
}

#[test]
fn parameters_are_those_published() {
    let gpt2 = Sizes { vocabulary: 50_257, positions: 1024, ..gpt(12, 768, 12) };
    let mixtral = Sizes {
        experts: Some(Experts { count: 8, top_k: 2 }),
        ..llama(32, 4096, [32, 8], 14_336, 32_000)
    };
    let qwen = Sizes {
        biases: Biases { qkv: true, ..Biases::default() },
        ..llama(28, 3584, [28, 4], 18_944, 152_064)
    };
    let published = [
        ("GPT-2", gpt2, 124_439_808),
        ("Llama 2 7B", llama(32, 4096, [32, 32], 11_008, 32_000), 6_738_415_616),
        ("Llama 3 8B", llama(32, 4096, [32, 8], 14_336, 128_256), 8_030_261_248),
        ("Llama 3 70B", llama(80, 8192, [64, 8], 28_672, 128_256), 70_553_706_496),
        ("Mistral 7B", llama(32, 4096, [32, 8], 14_336, 32_000), 7_241_732_096),
        ("Mixtral 8x7B", mixtral.clone(), 46_702_792_704),
        ("Qwen 2 7B", qwen, 7_615_616_512),
    ];
    for (name, sizes, parameters) in published {
        assert_eq!(model(sizes).parameters(), parameters, "{name}");
    }
    assert_eq!(model(mixtral).active_parameters(), 12_879_925_248);
}

/// Narayanan et al. 2021, equation 2, and table 1's third column to its digits.
#[test]
fn parameters_follow_the_published_formula() {
    for (layers, hidden, heads, billions) in [
        (24, 2304, 24, 1.7),
        (36, 4096, 32, 7.5),
        (80, 12_288, 96, 145.6),
        (105, 20_480, 128, 529.6),
    ] {
        let ours = number(model(gpt(layers, hidden, heads)).parameters());
        let [l, h] = [layers, hidden].map(number);
        let formula =
            12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + (51_200.0 + 2048.0) / (12.0 * l * h));
        // The last normalisation, 2 h, is not in the formula.
        assert!((ours - formula - 2.0 * h).abs() < 1.0, "{ours} {formula}");
        assert!((ours / 1e9 - billions).abs() < 0.051, "{ours}");
    }
}

/// Equation 3 of Narayanan et al. 2021, and equations 7 and 9 of Korthikanti et al. 2022.
#[test]
fn flops_follow_the_published_formulas() {
    let model = model(gpt(96, 12_288, 96));
    let [l, h, s, v] = [96.0, 12_288.0, 2048.0, 51_200.0];
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
    let base = 72.0 * l * h * h;
    close(model.model_flops(), base * (1.0 + s / (6.0 * h) + v / (12.0 * h * l)));
    let full = 96.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
    close(model.hardware_flops(Recompute::Full), full);
    let selective = base * (1.0 + s / (3.0 * h) + v / (12.0 * h * l));
    close(model.hardware_flops(Recompute::Selective), selective);
}

/// Korthikanti et al. 2022, table 2.
#[test]
fn activations_follow_the_published_formulas() {
    let model = model(gpt(1, 6144, 64));
    let [h, s, b, a] = [6144.0, 2048.0, 4.0, 64.0];
    for t in [1, 8] {
        for sequence_parallel in [false, true] {
            let cut = Cut { tensor: t, context: 1, expert: 1, microbatch: 4, sequence_parallel };
            let t = number(t);
            let whole = if sequence_parallel { 10.0 / t } else { 10.0 };
            let formulas = [
                (Recompute::None, s * b * h * (whole + 24.0 / t + 5.0 * a * s / (h * t))),
                (Recompute::Selective, s * b * h * (whole + 24.0 / t)),
                (Recompute::Full, 2.0 * s * b * h / if sequence_parallel { t } else { 1.0 }),
            ];
            for (recompute, bytes) in formulas {
                let ours = number(footprint(&model, cut, recompute, 1).until_backward.0);
                assert!((ours - bytes).abs() <= 1.0, "{recompute:?} {ours} {bytes}");
            }
        }
    }
}

#[test]
fn what_does_not_divide_is_named() {
    let model = model(gpt(24, 2304, 24));
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(64);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let reason = |setup: Setup| ground.cost(&setup).unwrap_err().to_string();
    assert!(reason(setup([4, 1, 2])).contains("devices"));
    assert!(reason(setup([1, 16, 1])).contains("tensor"));
    assert!(reason(Setup { microbatch: 7, ..setup([8, 1, 2]) }).contains("batch"));
    assert!(reason(Setup { chunks: 20, ..setup([8, 1, 2]) }).contains("chunks"));
    assert!(reason(Setup { zero: Zero::Parameters, ..setup([8, 1, 2]) }).contains("ZeRO"));
    assert!(reason(Setup { expert: 2, ..setup([8, 1, 2]) }).contains("expert"));
}

#[test]
fn slow_devices_get_fewer_layers_and_an_even_split_waits_for_them() {
    let model = model(gpt(32, 4096, 32));
    let slow = Machine { peak: 156e12, ..machine() };
    let cluster = Cluster { parts: vec![(slow, 2), (machine(), 2)] };
    let recipe = recipe(32);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let balanced = setup([1, 1, 4]);
    let step = |setup: &Setup| {
        let costed = ground.cost(setup).unwrap();
        let layers = costed.layers.clone();
        (ground.evaluate(costed, &mut Replay::new()).unwrap().step, layers)
    };
    let (fast, layers) = step(&balanced);
    assert!(layers[0] < layers[2], "{layers:?}");
    let (waits, layers) = step(&Setup { split: Split::Even, ..balanced });
    assert_eq!(layers, [8; 4]);
    assert!(fast < waits);
}

/// The search leaves nothing better out: the best of it is the best of all, simulated one by one.
#[test]
fn the_bound_hides_nothing() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(24, 2304, 24) });
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(128);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let setups = space().setups(&cluster).unwrap();
    let found = search(&ground, &setups, 3, &|_| {});
    let mut all: Vec<_> = setups
        .iter()
        .filter_map(|setup| ground.cost(setup).ok())
        .filter_map(|costed| ground.evaluate(costed, &mut Replay::new()).ok())
        .map(|evaluation| evaluation.step)
        .collect();
    all.sort_unstable();
    let best: Vec<_> = found.best.iter().map(|one| one.step).collect();
    assert_eq!(best, all[..3]);
    let left_out: u64 = found.left_out.values().sum();
    assert_eq!(found.simulated + left_out, setups.len() as u64);
    assert!(found.simulated < setups.len() as u64 / 4, "{}", found.simulated);
}

/// A search that is ended keeps what it has found, and says how many it has not looked at.
#[test]
fn a_search_can_be_ended() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(24, 2304, 24) });
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(128);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let setups = space().setups(&cluster).unwrap();
    let orders = Orders::default();
    let ended_after = |asked: usize| {
        let (count, decided) = (AtomicUsize::new(0), AtomicU64::new(0));
        let done = |more| {
            decided.fetch_add(more, Ordering::Relaxed);
        };
        let stop = || count.fetch_add(1, Ordering::Relaxed) >= asked;
        let found = search_with(
            &ground,
            &setups,
            1000,
            Watch { done: &done, stop: &stop, orders: &orders },
        );
        let left_out: u64 = found.left_out.values().sum();
        assert_eq!(found.simulated + left_out, setups.len() as u64);
        assert_eq!(decided.load(Ordering::Relaxed), setups.len() as u64);
        assert!(found.left_out.keys().any(|reason| reason.contains("not looked at")));
        found
    };
    assert_eq!(ended_after(0).best.len(), 0);
    // Once for each set-up that is costed, and once for each round.
    let found = ended_after(setups.len() + 1);
    assert!(found.simulated > 0 && found.best.len() as u64 == found.simulated);
}

/// Measured times go before the formulas, for the cut they were measured of and no other.
#[test]
fn measured_times_go_before_formulas() {
    let model = model(gpt(4, 1024, 16));
    let times =
        |seconds| Times { forward: seconds, backward_input: seconds, backward_weight: seconds };
    let measured = Some(Measured { microbatch: 1, layer: times(1.0), ends: times(0.5) });
    let cluster = Cluster { parts: vec![(Machine { measured, ..machine() }, 2)] };
    let recipe = recipe(2);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let step = |setup: &Setup| {
        let costed = ground.cost(setup).unwrap();
        number(ground.evaluate(costed, &mut Replay::new()).unwrap().step.0) / 1e9
    };
    // Two replicas of one microbatch: 4 layers of 3 s, ends of 1.5 s; computed again, 4 s more.
    assert!((step(&setup([2, 1, 1])) - 13.5).abs() < 0.1);
    let again = Setup { recompute: Recompute::Full, ..setup([2, 1, 1]) };
    assert!((step(&again) - 17.5).abs() < 0.1);
    assert!(step(&setup([1, 2, 1])) < 1.0);
}

/// A pipeline over two nodes crosses between them once: that stage boundary is the slow one, and
/// the turn of a V is none.
#[test]
fn transfers_leave_a_node_where_stages_do() {
    let model = model(gpt(30, 4096, 32));
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(32);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let hops = ground.cost(&setup([1, 1, 16])).unwrap().hops;
    let slow: Vec<usize> = (0..16).filter(|&chunk| hops[chunk] > hops[0]).collect();
    assert_eq!(slow, [7, 8]);
    let vee = Setup { family: Family::ZbV, chunks: 2, ..setup([2, 2, 4]) };
    let hops = ground.cost(&vee).unwrap().hops;
    assert_eq!(hops.len(), 8);
    let one = Setup { family: Family::ZbV, chunks: 2, ..setup([8, 2, 1]) };
    assert_eq!(ground.cost(&one).unwrap().hops, [0.0; 2]);
}

fn space() -> Space {
    Space {
        tensor: vec![1, 2, 4, 8],
        pipeline: vec![1, 2, 4, 8],
        context: vec![1],
        expert: vec![1],
        zero: vec![Zero::Optimizer, Zero::Parameters],
        microbatch: vec![1, 2, 4],
        chunks: vec![2, 3],
        families: vec![Family::OneFOneB, Family::Interleaved, Family::ZbH1, Family::ZbV],
        recompute: vec![Recompute::None, Recompute::Full],
        split: vec![Split::Balanced],
        vocabulary_parallel: vec![false, true],
    }
}

/// Operations that must be done: half of all pairs of tokens are left out by attention in tiles.
fn work(model: &Transformer, recipe: &Recipe) -> f64 {
    let tokens = number(recipe.batch * model.sequence);
    let spared = match model.attention {
        Attention::Flash => 1.5 * number(model.layers) * model.attention_flops(),
        Attention::Core => 0.0,
    };
    (model.model_flops() - spared) * tokens
}

fn any_setup() -> impl Strategy<Value = (Setup, u64)> {
    let groups = (0u32..4, 0u32..4, 0u32..4, 0u32..3, 1u64..4);
    let kinds = (0usize..12, 0usize..3, any::<bool>(), any::<bool>(), 0usize..2);
    (groups, kinds, 1u64..9).prop_map(|((d, t, p, b, v), kind, m)| {
        let (family, recompute, balanced, vocabulary, zero) = kind;
        let families = [
            Family::OneFOneB,
            Family::Interleaved,
            Family::ZbH1,
            Family::ZbV,
            Family::VHalf,
            Family::DualPipe,
            Family::PoH,
            Family::PoF,
            Family::Vocab1,
            Family::Vocab2,
            Family::Interlaced1F1B,
            Family::VHalfVocab1,
        ];
        let family = families[family];
        let vocabulary = vocabulary || family.vocabulary() != Vocabulary::Whole;
        let chunks = match family.about().chunks {
            pipeline::Chunks::Exactly(chunks) => u64::from(chunks),
            pipeline::Chunks::Any { .. } => v,
        };
        let setup = Setup {
            microbatch: 1 << b,
            chunks,
            family,
            recompute: Recompute::ALL[recompute],
            split: if balanced { Split::Balanced } else { Split::Even },
            vocabulary_parallel: vocabulary,
            zero: Zero::ALL[zero],
            ..setup([1 << d, 1 << t, 1 << p])
        };
        (setup, (1 << (d + b)) * m * (1 << p))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No plan is faster than the work at the peak rate, nor than its own bound, and none holds
    /// more than its devices have.
    #[test]
    fn no_step_is_below_the_work_and_none_overflows(
        (setup, batch) in any_setup(),
        flash in any::<bool>(),
        hidden in 1u64..9,
        gib in 1u64..81,
    ) {
        let attention = if flash { Attention::Flash } else { Attention::Core };
        let model = model(Sizes { attention, ..gpt(24, 512 * hidden, 8 * hidden) });
        let machine = Machine { memory: Bytes(gib << 30), ..machine() };
        let cluster = Cluster { parts: vec![(machine.clone(), setup.devices())] };
        let recipe = recipe(batch);
        let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
        let evaluated = ground.cost(&setup).and_then(|costed| {
            let least = ground.least(&costed);
            Ok((least, ground.evaluate(costed, &mut Replay::new())?))
        });
        match evaluated {
            Ok((least, evaluation)) => {
                let peak = machine.peak * number(setup.devices());
                let seconds = number(evaluation.step.0) / 1e9;
                prop_assert!(seconds >= work(&model, &recipe) / peak);
                prop_assert!(evaluation.step >= least);
                let dealt: u64 = evaluation.costed.layers.iter().sum();
                prop_assert_eq!(dealt, model.layers);
                for held in &evaluation.memory {
                    prop_assert!(held.sum() <= machine.memory);
                }
            }
            Err(Rejected::Memory(overflow)) => prop_assert!(overflow.needs > overflow.has),
            Err(_) => {}
        }
    }
}

/// Steps of four replicas drawn one by one, each device straggling by itself: the shares that are
/// done by P50 and by P95 are what their names say, within five standard deviations.
#[test]
fn percentiles_are_those_of_steps_drawn_one_by_one() {
    const STEPS: u64 = 1000;
    let model = model(gpt(8, 1024, 16));
    let cluster = Cluster { parts: vec![(machine(), 8)] };
    let recipe = recipe(16);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let costed = ground.cost(&setup([4, 1, 2])).unwrap();
    let evaluation = ground.evaluate(costed, &mut Replay::new()).unwrap();
    let finalist = ground.finalist(evaluation).unwrap();
    let straggler = Straggler { probability: 0.01, factor: 1.5 };
    let slowdown = vec![SlowDevice { device: 5, factor: 1.1 }];
    let unrest = Unrest {
        jitter: 0.05,
        stall: None,
        straggler: Some(straggler),
        slowdown,
        replicas: 1000,
        seed: 1,
    };
    let found = percentiles(&finalist, &unrest).unwrap();
    let mut chance = SplitMix64::seed_from_u64(9);
    let mut step = |at: u64| {
        let of_replica = |replica: u64| {
            let mut noise = Stragglers::new(2, 77);
            noise.jitter_passes(Jitter::log_normal(0.05).unwrap());
            for stage in 0..2 {
                // Device 5 is stage 1 of replica 1.
                if (stage, replica) == (1, 1) {
                    noise.slow(Target::Device(1), 1.1).unwrap();
                }
                if chance.random_bool(straggler.probability) {
                    noise.slow(Target::Stage(stage), straggler.factor).unwrap();
                }
            }
            finalist.step_under(&noise.conditions(4 * at + replica, &finalist.costs)).unwrap()
        };
        (0..4).map(of_replica).max().unwrap()
    };
    let steps: Vec<_> = (0..STEPS).map(&mut step).collect();
    for (found, share) in found.into_iter().zip([0.5, 0.95]) {
        let done = steps.iter().filter(|step| **step <= found).count();
        let margin = 5.0 * (share * (1.0 - share) / number(STEPS)).sqrt();
        let done = number(done as u64) / number(STEPS);
        assert!((done - share).abs() < margin, "{done} {share}");
    }
}

/// Where transfers take no time, the engine has nothing that replay has not.
#[test]
fn without_transfers_the_engine_agrees_with_replay() {
    let model = model(gpt(24, 2304, 24));
    let mut ideal = machine();
    ideal.efficiency.hop_latency = 0.0;
    (ideal.link, ideal.network) = (1e15, 1e15);
    ideal.efficiency.link = 1.0;
    let cluster = Cluster { parts: vec![(ideal, 16)] };
    let recipe = recipe(64);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    // ZB-V and its like are ordered by times, in which replay counts transfers.
    for (family, chunks) in [(Family::OneFOneB, 1), (Family::Interleaved, 3), (Family::ZbH1, 1)] {
        let costed = ground.cost(&Setup { family, chunks, ..setup([4, 1, 4]) }).unwrap();
        let evaluation = ground.evaluate(costed, &mut Replay::new()).unwrap();
        let finalist = ground.finalist(evaluation).unwrap();
        // A byte of 10^15 a second: 34 ns for each transfer.
        assert!(finalist.over_replay().abs() < 1e-5, "{family:?} {}", finalist.over_replay());
    }
}

/// Shards of the head do what the head does, in smaller products; parameters are the same on all
/// stages.
#[test]
fn shards_share_the_head_and_the_embedding() {
    let model = model(gpt(24, 2304, 24));
    let cluster = Cluster { parts: vec![(machine(), 8)] };
    let recipe = recipe(64);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let whole = ground.cost(&setup([1, 2, 4])).unwrap();
    assert_eq!(whole.costs.shards(), []);
    let head = whole.ends.iter().map(|times| times.sum()).sum::<f64>();
    for (family, thirds) in [(Family::Vocab1, [1, 2]), (Family::Vocab2, [2, 1])] {
        let setup = Setup { family, vocabulary_parallel: true, ..setup([1, 2, 4]) };
        let costed = ground.cost(&setup).unwrap();
        let shards = costed.costs.shards();
        let sum: u64 = shards.iter().map(|shard| (shard.before + shard.after).0).sum();
        let norm = costed.ends.iter().map(|times| times.sum()).sum::<f64>();
        let spread = number(sum) / 1e9 + norm;
        assert!(spread > head && spread < 1.1 * head, "{spread} {head}");
        for shard in shards {
            let [s, t] = thirds;
            assert!((s * shard.after.0).abs_diff(t * shard.before.0) <= 4);
        }
        let held: Vec<_> = costed.resident.iter().map(|held| held.parameters).collect();
        assert!(held.iter().all(|bytes| *bytes == held[0]), "{held:?}");
        // 51,200 rows in 4 stages and 2 devices, 6 bytes a logit; and its output of 2 bytes, shared.
        let shard = 2048 * (51_200 / 8 * 6 + 2304 * 2 / 2);
        assert_eq!(costed.footprints.shards(), vec![Bytes(shard); 4]);
    }
}

/// GIS with and without copies to the host: the same passes, less memory; and what the host's link
/// takes is what its rate says.
#[test]
fn copies_to_the_host_save_memory_and_take_their_time() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(32, 12_288, 96) });
    let cluster = Cluster { parts: vec![(machine(), 64)] };
    let recipe = recipe(64);
    let ground = Ground { model: &model, recipe: &recipe, cluster: &cluster };
    let peak = |family: Family| {
        let setup = Setup { family, chunks: 2, ..setup([1, 8, 8]) };
        let costed = ground.cost(&setup).unwrap();
        for (chunk, times) in (0..).zip(costed.costs.copies()) {
            // 30 GB/s for two devices, which are of the same stage.
            let bytes = costed.footprints.of(chunk).until_backward;
            assert_eq!(times.out.0, (bytes.0 * 2).div_ceil(30));
        }
        let finalist = ground.evaluate(costed, &mut Replay::new()).unwrap();
        let finalist = ground.finalist(finalist).unwrap();
        finalist.evaluation.fullest().1.activations.0
    };
    let [stays, half, full] = [Family::Gis, Family::PoH, Family::PoF].map(peak);
    assert!(10 * half < 7 * stays && full < half, "{stays} {half} {full}");
    let mut bare = machine();
    bare.host = None;
    let cluster = Cluster { parts: vec![(bare, 64)] };
    let ground = Ground { cluster: &cluster, ..ground };
    let refused = ground.cost(&Setup { family: Family::PoH, chunks: 2, ..setup([1, 8, 8]) });
    assert!(refused.unwrap_err().to_string().contains("link to it is not known"));
}
