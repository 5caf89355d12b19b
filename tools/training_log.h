// What a training run leaves behind step by step: a file of JSON lines, and a mean of the loss.
#ifndef DPIPE_TOOLS_TRAINING_LOG_H_
#define DPIPE_TOOLS_TRAINING_LOG_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "core/base/status.h"

namespace dpipe::tools {

// Recent values count more: value i steps ago weighs decay^i. Exact from the first value on.
class RunningMean {
 public:
  explicit RunningMean(double decay) : decay_(decay) {}

  void Add(double value);
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  const double decay_;
  double sum_ = 0;
  double weight_ = 0;
};

struct LoggedStep {
  int64_t step = 0;  // from 1
  double loss = 0;
  double learning_rate = 0;
  double images_per_second = 0;
  double elapsed_s = 0;
};

class TrainingLog {
 public:
  // Starts the file anew, with its folder. Unavailable where it cannot be written.
  static absl::StatusOr<std::unique_ptr<TrainingLog>> Create(const std::string& path);

  // One line: {"step":1,"loss":1.1,"lr":1e-05,"images_per_second":98.2,"elapsed_s":0.3}.
  void Write(const LoggedStep& step);
  // Everything so far is in the file. Unavailable where something could not be written.
  absl::Status Flush();

 private:
  explicit TrainingLog(const std::string& path);

  const std::string path_;
  std::ofstream file_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_LOG_H_
