// Results of a benchmark, with every sample and everything needed to judge them: machine, versions,
// flags. Written as JSON and read back unchanged, so that results can be compared later.
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
// "storage" is present for strategies that read frozen outputs back; the machine's "gpus" and
// "gpu_driver" for measurements on GPUs. In files to be read, these are optional: skipped, invalid,
// loss_check, idle_by_reason, clips_gradients, changes_mathematics, session_group, gradient_norms,
// interrupted and instruction_times. A quantity that was not measured is NaN here and null in the
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
  // Human-readable: "F+B of layers 0-20 on device 0, 21-41 on device 1".
  std::string description;
};

// Comparison of a strategy's losses and global gradient norms with those of others on the same
// samples. Losses alone do not reveal gradients of a wrong scale, because clipping and AdamW nearly
// cancel it.
struct LossCheck {
  std::string reference;  // "one device", "the other strategies"; empty: no comparison
  int num_steps = 0;      // number of steps compared
  double max_relative_difference = kNotMeasured;
  double tolerance = kNotMeasured;
  double max_gradient_norm_difference = kNotMeasured;  // relative, too
  double gradient_norm_tolerance = kNotMeasured;  // of later steps; the first have a tighter one
};

// Disk space that a strategy needs to read frozen components' outputs back, and the time to compute
// them. That time is not part of the strategy's other times.
struct StorageCost {
  int num_images = 0;  // 0: nothing is stored
  int num_captions = 0;
  int64_t disk_bytes = 0;  // size of the files
  double fill_ms = kNotMeasured;

  double BytesPerImage() const { return static_cast<double>(disk_bytes) / num_images; }
};

// Time per step that a device spends on all instructions of a kind. If `per_step` is 0, the time
// without computation.
struct InstructionTimes {
  std::string work;  // DescribeWork(), or "waiting"
  int device = 0;
  int per_step = 0;  // instructions
  double measured_ms = kNotMeasured;
  double predicted_ms = kNotMeasured;

  double difference_ms() const { return measured_ms - predicted_ms; }
};

struct StrategyResult {
  std::string strategy;
  std::string skipped;  // reason why it did not run, as a sentence; empty if it ran
  std::string invalid;  // reason why its numbers do not count; empty if they do
  LossCheck loss_check;
  // True for pipelines that leave their bubbles empty and compute the frozen work themselves
  // (gpipe, 1f1b). Filling is measured against these.
  bool is_unfilled_pipeline = false;
  // False if weights lag behind: no stage then knows the norm of all gradients.
  bool clips_gradients = true;
  // True if weights lag behind or gradients are compressed. The losses then differ from those of
  // one device and are not compared.
  bool changes_mathematics = false;
  // If a device cannot hold all strategies at once, they are divided into groups. Strategies of one
  // group take turns; groups run one after another.
  int session_group = 0;
  std::vector<double> images_per_second;  // one per repeat
  std::vector<double> step_ms;            // one per measured step, all repeats
  double speedup_vs_data_parallel = kNotMeasured;
  double speedup_vs_best_unfilled_pipeline = kNotMeasured;
  double bubble_ratio_measured = kNotMeasured;
  double bubble_ratio_predicted = kNotMeasured;
  double step_ms_predicted = kNotMeasured;
  double step_ms_planned = kNotMeasured;   // predicted before training from the planning profile
  double step_over_bound = kNotMeasured;   // measured median step divided by the plan's lower bound
  std::vector<int64_t> peak_memory_bytes;  // by device
  std::vector<double> losses;              // by step; all strategies see the same samples
  // By step, before clipping; empty if the plan does not compute them.
  std::vector<double> gradient_norms;
  // Idle share of all devices' time, by reason (BubbleReasonName).
  std::map<std::string, double> idle_by_reason;
  StorageCost storage;
  // Measured and predicted times, largest difference first; see instruction_times.h.
  std::vector<InstructionTimes> instruction_times;
  PlanSummary plan;

  // True if the strategy ran and its numbers count.
  bool counts() const { return skipped.empty() && invalid.empty() && !images_per_second.empty(); }
  double MedianImagesPerSecond() const;    // over turns
  double MedianStepMs() const;             // over the turns' median steps
  int64_t LargestPeakMemoryBytes() const;  // maximum over devices; 0 if not measured
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
  std::string interrupted;  // "SIGINT after 3 of 15 turns"; empty if all turns were completed
  MachineInfo machine;
  std::map<std::string, std::string> versions;  // library → version
  std::map<std::string, std::string> flags;     // every flag → its value
  std::vector<StrategyResult> results;          // in display order

  const StrategyResult* Find(const std::string& strategy) const;  // nullptr if absent
};

// Computes both speedups of every result from the median images per second. They stay NaN if the
// other strategy was not measured or the result does not count.
void ComputeSpeedups(BenchResults* results);

// Returns indented JSON that ends in a newline. Doubles are written so that reading restores the
// same bits.
std::string ResultsToJson(const BenchResults& results);

// Returns InvalidArgument, naming the key, if `json` is not a valid results file.
absl::StatusOr<BenchResults> ResultsFromJson(absl::string_view json);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_H_
