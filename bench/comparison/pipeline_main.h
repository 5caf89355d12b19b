// Flags and main function of the benchmarks that compare strategies on one kind of model.
#ifndef DPIPE_BENCH_COMPARISON_PIPELINE_MAIN_H_
#define DPIPE_BENCH_COMPARISON_PIPELINE_MAIN_H_

#include <map>
#include <string>

#include "models/trainable/trainable_model.h"

namespace dpipe::bench {

// The properties of one benchmark.
struct PipelineProgram {
  std::string name;     // "sd_pipeline"; also names its output folder
  std::string summary;  // "Trains Stable Diffusion", for --help
  // Values of flags whose default differs from the common one: {"strategies", "gpipe,1f1b"}.
  std::map<std::string, std::string> defaults;
  models::LoadModelOptions model;
  double caption_drop = 0.1;
  // Name of a modelled profile (data/profiles/modelled), to simulate the strategies on clusters
  // with a model of full size; empty: none.
  std::string full_size_model;
};

// Returns the exit status: 0; 1 for an error or a wrong command line; 2 if a strategy did not
// compute what the others did (loss_check.h); 130 if SIGINT or SIGTERM ended it. After the first
// signal it finishes the current turn and reports the turns that all strategies have taken. A
// second signal ends it at once.
int PipelineMain(const PipelineProgram& program, int argc, char** argv);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_PIPELINE_MAIN_H_
