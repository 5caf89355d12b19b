// Logs a training run in the format of MLPerf Training: one line per event, ":::MLLOG {json}", with
// the keys of MLPerf's rules if they define one for the event. The log is not a submission: it does
// not claim that the run followed the rules of a benchmark.
#ifndef DPIPE_TOOLS_RUN_LOGS_MLLOG_H_
#define DPIPE_TOOLS_RUN_LOGS_MLLOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/files/append_file.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/run_logs/training_observer.h"

namespace dpipe::tools {

// Returns milliseconds since 1970.
int64_t UnixMillis();

// Writes these events:
// - init_start, seed, global_batch_size, train_samples, eval_samples, opt_base_learning_rate at the
//   start; then init_stop, run_start;
// - epoch_start and epoch_stop with epoch_num from 1;
// - tracked_stats (loss and throughput) every 100 steps;
// - eval_start, eval_error (the mean held-out loss), eval_stop;
// - run_stop with status "success" or "aborted".
class MlLog : public TrainingObserver {
 public:
  struct Options {
    std::string path;
    bool append = false;  // the run resumes: keep the existing lines
    int64_t init_start_ms = 0;
    double learning_rate = 0;  // the peak
    std::function<int64_t()> clock = UnixMillis;
  };
  // Returns Unavailable if the file cannot be written.
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
  int64_t epoch_ = 0;  // number of the current epoch, from 1; 0 before the run starts
  int64_t steps_ = 0;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_MLLOG_H_
