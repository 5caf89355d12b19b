// Options of a training run.
#ifndef DPIPE_TOOLS_TRAINING_TRAINING_OPTIONS_H_
#define DPIPE_TOOLS_TRAINING_TRAINING_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "models/diffusion/draw_options.h"
#include "models/trainable/training_setup.h"
#include "models/weights/weights.h"
#include "tools/run_control/fault_watch.h"
#include "tools/training/training_checkpoints.h"

namespace dpipe::tools {

struct TrainerOptions {
  // The learning rate's total_steps is set to the number of steps.
  models::TrainingSetupOptions setup;
  Strategy strategy;
  int num_micro_batches = 0;               // per pipeline group; 0: search
  int max_micro_batch = 0;                 // samples per micro-batch and device; 0: no limit
  std::string profile_path, cluster_path;  // inputs of the plan; both empty: measured
  int64_t num_steps = 0;                   // 0: as many as predicted for the time limit
  Nanos time_limit_ns = 0;  // of training, including pauses; 0: none. Steps or a limit is required.

  std::string out;         // folder of everything that the run writes
  std::string model_out;   // folder of the model, in it
  int64_t save_every = 0;  // steps; 0: at the end only
  models::StoredFormat format = models::StoredFormat::kFp32;
  int64_t sample_every = 0;  // steps; 0: none during training
  bool sample_at_end = true;
  std::vector<std::string> sample_prompts;  // empty: captions of the data set
  models::DrawOptions draw;
  std::string sample_folder;  // for step_000500.png and so on

  // Evaluation of held-out samples, if setup.data holds some out.
  int64_t evaluate_every = 0;  // steps; 0: at the end only
  std::vector<double> evaluation_quantiles;
  bool evaluate_saved = true;     // the saved weights: the average, if one is kept
  bool evaluate_trained = false;  // the trained weights, if an average is kept
  bool keep_best = false;         // in best_out, by the loss of the saved weights
  std::string best_out;

  std::string log_path;                              // of JSON lines
  std::string mllog_path;                            // empty: none
  std::string tensorboard_folder;                    // empty: none
  std::string config_path;                           // destination of `config`
  std::string kept_profile_path, kept_cluster_path;  // destinations of the plan's inputs
  std::string config;                                // the whole configuration, as text
  std::map<std::string, std::string> config_fields;  // the same by path
  std::string command;                               // for the record

  CheckpointOptions checkpoints;
  FaultOptions faults;
  bool check_only = false;  // see OnlyCheck
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_TRAINING_OPTIONS_H_
