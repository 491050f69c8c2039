//! One binary for all tests of the whole: one file per promise.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // A test may.
#![allow(clippy::print_stdout, clippy::print_stderr)] // It says what it skips.

mod agree;
mod backward;
mod bench;
mod boundary;
mod calibrate;
mod causes;
mod choices;
mod cli;
mod closed_forms;
mod compare;
mod controllable;
mod doors;
mod draw;
mod endings;
mod engine;
mod every;
mod examples;
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
mod memory;
mod messages;
mod noise;
mod paper;
mod pictures;
mod pipeoffload;
mod plan;
mod plan_bars;
mod plan_boundary;
mod plan_memory;
mod plan_model;
mod plan_noise;
mod plan_page;
mod processes;
mod removal;
mod room;
mod schema;
mod search;
mod simulation;
mod sweep;
mod sweep_files;
mod sweep_rows;
mod trace;
mod traces;
mod verify;
mod vocabulary;
