// The flags and main function of the benchmarks that compare strategies on one kind of model.
#ifndef DPIPE_BENCH_PIPELINE_MAIN_H_
#define DPIPE_BENCH_PIPELINE_MAIN_H_

#include <map>
#include <string>

#include "models/trainable/model_kind.h"

namespace dpipe::bench {

// What one benchmark has of its own.
struct PipelineProgram {
  std::string name;     // "sd_pipeline", also of its output folder
  std::string summary;  // "Trains Stable Diffusion", for --help
  // Of flags whose value is not the common one: {"strategies", "gpipe,1f1b"}.
  std::map<std::string, std::string> defaults;
  models::LoadModelOptions model;
  double caption_drop = 0.1;
};

// The exit status: 0; 1 for an error or a wrong command line; 2 where a strategy did not compute
// what the others do (loss_check.h); 130 where SIGINT or SIGTERM ended it after the turn under way,
// with a report of the turns that all strategies had taken. A second signal ends it at once.
int PipelineMain(const PipelineProgram& program, int argc, char** argv);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PIPELINE_MAIN_H_
