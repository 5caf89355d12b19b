// What //tools:train is asked to do.
#ifndef DPIPE_TOOLS_TRAINING_OPTIONS_H_
#define DPIPE_TOOLS_TRAINING_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "models/diffusion/draw_options.h"
#include "models/trainable/training_setup.h"
#include "models/weights/weights.h"
#include "tools/fault_watch.h"
#include "tools/training_checkpoints.h"

namespace dpipe::tools {

struct TrainerOptions {
  // Its learning rate's total_steps is set to the number of steps.
  models::TrainingSetupOptions setup;
  Strategy strategy;
  int num_micro_batches = 0;               // of a pipeline group; 0: search
  int max_micro_batch = 0;                 // samples of one of them on one device; 0: no limit
  std::string profile_path, cluster_path;  // to plan from; both empty: measured
  int64_t num_steps = 0;                   // 0: as many as the plan predicts for the time limit
  Nanos time_limit_ns = 0;  // of training, with its pauses; 0: none. One of the two is needed.

  std::string out;         // folder of the model
  int64_t save_every = 0;  // steps; 0: at the end only
  models::StoredFormat format = models::StoredFormat::kFp32;
  int64_t sample_every = 0;  // steps; 0: none on the way
  bool sample_at_end = true;
  std::vector<std::string> sample_prompts;
  bool sample_prompts_are_examples = false;  // nobody has asked for these
  models::DrawOptions draw;
  std::string sample_folder;  // of step_000500.png and so on

  // Of held-out samples, where setup.data holds some out.
  int64_t evaluate_every = 0;  // steps; 0: at the end only
  std::vector<double> evaluation_quantiles;
  bool evaluate_saved = true;     // the weights that are saved: the average, if one is kept
  bool evaluate_trained = false;  // those trained, where they are others
  bool keep_best = false;         // in best_out, by the loss of the weights that are saved
  std::string best_out;

  std::string log_path;                              // of JSON lines
  std::string mllog_path;                            // empty: none
  std::string tensorboard_folder;                    // empty: none
  std::string config_path;                           // where `config` is written
  std::string kept_profile_path, kept_cluster_path;  // where what was planned from is written
  std::string config;                                // the whole of it, as text
  std::map<std::string, std::string> config_fields;  // and value by path
  std::string command;                               // for the record

  CheckpointOptions checkpoints;
  FaultOptions faults;
  bool check_only = false;  // see OnlyCheck
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_OPTIONS_H_
