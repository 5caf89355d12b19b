// A training run in the log format of MLPerf Training: one line an event, ":::MLLOG {json}", with
// the keys of its rules where there is one for it. No submission: nothing says that a run kept to
// the rules of a benchmark.
#ifndef DPIPE_TOOLS_MLLOG_H_
#define DPIPE_TOOLS_MLLOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/append_file.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/training_observer.h"

namespace dpipe::tools {

// Milliseconds since 1970.
int64_t UnixMillis();

// init_start, seed, global_batch_size, train_samples, eval_samples, opt_base_learning_rate of a
// start; init_stop, run_start; epoch_start and epoch_stop with epoch_num from 1; tracked_stats
// (loss and throughput) every 100 steps; eval_start, eval_error (the mean held-out loss),
// eval_stop; run_stop with the status "success" or "aborted".
class MlLog : public TrainingObserver {
 public:
  struct Options {
    std::string path;
    bool append = false;  // a run goes on
    int64_t init_start_ms = 0;
    double learning_rate = 0;  // the peak
    std::function<int64_t()> clock = UnixMillis;
  };
  // Unavailable where the file cannot be written.
  static absl::StatusOr<std::unique_ptr<MlLog>> Create(const Options& options);

  void OnStart(const RunStart& start) override;
  void OnStep(const StepReport& step) override;
  void OnEvaluation(const EvaluationReport& evaluation) override;
  void OnEnd(const RunEnd& end) override;
  absl::Status Flush() override;

 private:
  MlLog(const Options& options, std::unique_ptr<AppendFile> file);
  void Write(const char* type, const char* key, const nlohmann::ordered_json& value,
             const nlohmann::ordered_json& metadata, int64_t time_ms);
  void Point(const char* key, const nlohmann::ordered_json& value,
             const nlohmann::ordered_json& metadata = nlohmann::ordered_json::object());
  void EpochStart(int64_t number);
  void EpochStop(int64_t number);

  const Options options_;
  const std::unique_ptr<AppendFile> file_;
  int global_batch_ = 0;
  int64_t evaluation_samples_ = 0;
  int64_t epoch_ = 0;  // the number of the one under way, from 1; 0: none
  int64_t steps_ = 0;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_MLLOG_H_
