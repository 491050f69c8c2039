//! One binary for all tests of the whole: one file per promise.

#![allow(clippy::unwrap_used)] // A test may.

mod agree;
mod bench;
mod boundary;
mod calibrate;
mod causes;
mod choices;
mod cli;
mod closed_forms;
mod compare;
mod controllable;
mod draw;
mod engine;
mod every;
mod execute;
mod explain;
mod faults;
mod fsdp;
mod golden;
mod gpus;
mod hardware;
mod law;
mod levers;
mod machine;
mod paper;
mod pipeoffload;
mod plan;
mod plan_bars;
mod plan_memory;
mod plan_noise;
mod processes;
mod removal;
mod room;
mod search;
mod sweep;
mod sweep_files;
mod sweep_rows;
mod trace;
mod traces;
mod verify;
mod vocabulary;
mod weather;
