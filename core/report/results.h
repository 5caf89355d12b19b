// What a benchmark found, with every sample and all that is needed to judge it: the machine, the
// versions, the flags. Written as JSON and read back unchanged, so that results can be compared
// later.
//
//   {"format": "dpipe.bench_results", "format_version": 1, "benchmark": "sd_pipeline", ...,
//    "machine": {...}, "versions": {...}, "flags": {...},
//    "results": [{"strategy": "diffusionpipe",
//                 "images_per_second": {"median": 142.9, "samples": [142.1, 142.9, 143.3]},
//                 "speedup_vs_data_parallel": 1.21, "speedup_vs_best_unfilled_pipeline": 1.34,
//                 "bubble_ratio": {"measured": 0.031, "predicted": 0.028},
//                 "step_ms": {"measured": 447.9, "predicted": 441.0, "planned": 432.5, "samples":
//                 []}, "step_over_bound": 1.04, "peak_memory_bytes": 812345678,
//                 "peak_memory_bytes_by_device": [...], "losses": [...],
//                 "spread": {"min": 142.1, "max": 143.3, "mad": 0.4},
//                 "idle_by_reason": {"warm-up": 0.012, ...}, "skipped": "", "invalid": "",
//                 "loss_check": {"reference": "one device", "steps": 8,
//                                "max_relative_difference": 1.6e-07, "tolerance": 0.0001,
//                                "max_gradient_norm_difference": 3.1e-07,
//                                "gradient_norm_tolerance": 0.001},
//                 "clips_gradients": true, "changes_mathematics": false, "session_group": 0,
//                 "gradient_norms": [...],
//                 "storage": {"disk_bytes": 9175040, "images": 480, "captions": 311,
//                             "fill_ms": 2310.5},
//                 "instruction_times": [{"work": "backward, stage 1", "device": 1, "per_step": 8,
//                                        "measured_ms": 130.2, "predicted_ms": 121.9}, ...],
//                 "plan": {"stages": 2, "micro_batches": 8, "micro_batch_size": 8, ...}}]}
//
// "storage" is there of strategies that read frozen outputs back, the machine's "gpus" and
// "gpu_driver" of what was measured on GPUs. Files without skipped, invalid, loss_check,
// idle_by_reason, clips_gradients, changes_mathematics, session_group, gradient_norms, interrupted
// or instruction_times are read too. A quantity that was not measured is NaN here and null in the
// file.
#ifndef DPIPE_CORE_REPORT_RESULTS_H_
#define DPIPE_CORE_REPORT_RESULTS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/report/machine.h"

namespace dpipe::report {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct PlanSummary {
  int num_stages = 0;
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  // For people: "F+B of layers 0-20 on device 0, 21-41 on device 1".
  std::string description;
};

// Whether a strategy computed what it should have: its losses and its gradients' global norms
// beside others on the same samples. Losses alone do not show gradients of a wrong scale, which
// clipping and AdamW nearly cancel.
struct LossCheck {
  std::string reference;  // "one device", "the other strategies"; empty: nothing was compared
  int num_steps = 0;      // compared
  double max_relative_difference = kNotMeasured;
  double tolerance = kNotMeasured;
  double max_gradient_norm_difference = kNotMeasured;  // relative, likewise
  double gradient_norm_tolerance = kNotMeasured;       // of later steps; the first are held to more
};

// What a strategy that reads frozen components' outputs back keeps on disk, and what making it
// took, which is in none of the strategy's times.
struct StorageCost {
  int num_images = 0;  // 0: it keeps nothing
  int num_captions = 0;
  int64_t disk_bytes = 0;  // of the files
  double fill_ms = kNotMeasured;

  double BytesPerImage() const { return static_cast<double>(disk_bytes) / num_images; }
};

// How long all instructions of a kind take a device in a step; or, where `per_step` is 0, how long
// it computes nothing.
struct InstructionTimes {
  std::string work;  // DescribeWork(); "waiting"
  int device = 0;
  int per_step = 0;  // instructions
  double measured_ms = kNotMeasured;
  double predicted_ms = kNotMeasured;

  double difference_ms() const { return measured_ms - predicted_ms; }
};

struct StrategyResult {
  std::string strategy;
  std::string skipped;  // why it did not run, in a sentence; empty: it did
  std::string invalid;  // why its numbers do not count; empty: they do
  LossCheck loss_check;
  // Whether this is a pipeline whose bubbles are left empty and that computes the frozen work
  // itself (gpipe, 1f1b): the rivals that filling is measured against.
  bool is_unfilled_pipeline = false;
  // Not where weights lag behind: there no stage knows the norm of all gradients.
  bool clips_gradients = true;
  // Weights lag behind or gradients are compressed: its losses are not those of one device, and are
  // compared with no others.
  bool changes_mathematics = false;
  // Of strategies that a device has no memory for together, those of one group take turns with each
  // other, and groups come one behind another.
  int session_group = 0;
  std::vector<double> images_per_second;  // one a repeat
  std::vector<double> step_ms;            // one a measured step, all repeats
  double speedup_vs_data_parallel = kNotMeasured;
  double speedup_vs_best_unfilled_pipeline = kNotMeasured;
  double bubble_ratio_measured = kNotMeasured;
  double bubble_ratio_predicted = kNotMeasured;
  double step_ms_predicted = kNotMeasured;
  double step_ms_planned = kNotMeasured;   // predicted before training, from the planning profile
  double step_over_bound = kNotMeasured;   // measured median step over the plan's lower bound
  std::vector<int64_t> peak_memory_bytes;  // by device
  std::vector<double> losses;              // by step; the same samples for every strategy
  // By step, before clipping; empty where the plan does not compute them.
  std::vector<double> gradient_norms;
  // Idle share of all devices' time, by the name of its reason (BubbleReasonName).
  std::map<std::string, double> idle_by_reason;
  StorageCost storage;
  // Measured beside predicted, those that differ most first; see instruction_times.h.
  std::vector<InstructionTimes> instruction_times;
  PlanSummary plan;

  // It ran, and its numbers count.
  bool counts() const { return skipped.empty() && invalid.empty() && !images_per_second.empty(); }
  double MedianImagesPerSecond() const;    // of the turns
  double MedianStepMs() const;             // of the turns' median steps
  int64_t LargestPeakMemoryBytes() const;  // over devices; 0 if not measured
};

struct BenchResults {
  std::string benchmark;  // "sd_pipeline"
  std::string model;      // "tiny_sd"
  std::string backend;    // "cpu"
  std::string dtype;      // "fp32"
  int num_devices = 0;
  int global_batch = 0;
  std::string created;  // UTC, "2026-01-31T12:00:00Z"
  std::string command_line;
  std::string interrupted;  // "SIGINT after 3 of 15 turns"; empty: all turns were taken
  MachineInfo machine;
  std::map<std::string, std::string> versions;  // library → version
  std::map<std::string, std::string> flags;     // every flag → its value
  std::vector<StrategyResult> results;          // in the order in which they are shown

  const StrategyResult* Find(const std::string& strategy) const;  // nullptr if absent
};

// Fills both speedups of every result from the medians of images per second; those with no rival
// measured, and those of results that do not count, stay NaN.
void ComputeSpeedups(BenchResults* results);

// JSON, indented, ending in a newline. Doubles are written so that reading gives the same bits.
std::string ResultsToJson(const BenchResults& results);

// InvalidArgument, naming the key, where `json` is not such a file.
absl::StatusOr<BenchResults> ResultsFromJson(absl::string_view json);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_H_
