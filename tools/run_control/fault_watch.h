// Records the faults that a run survives: steps with non-finite numbers, and images that cannot be
// decoded.
#ifndef DPIPE_TOOLS_RUN_CONTROL_FAULT_WATCH_H_
#define DPIPE_TOOLS_RUN_CONTROL_FAULT_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/session/local_session.h"
#include "data/loader.h"

namespace dpipe::tools {

struct FaultOptions {
  // See LocalSessionOptions. 0 ends the run at the first non-finite step.
  int max_skipped_in_a_row = 0;
  int num_dumps = 3;        // maximum number of batches to dump; see DumpBatch
  std::string dump_folder;  // folder of the dumps
};

class FaultWatch {
 public:
  // All pointees outlive this. `skipped_before`: number of steps skipped before the run was
  // resumed.
  FaultWatch(const FaultOptions& options, const nn::Model* model, InputProvider* inputs,
             DataLoader* loader, int global_batch, int64_t skipped_before)
      : options_(options),
        model_(model),
        inputs_(inputs),
        loader_(loader),
        global_batch_(global_batch),
        num_skipped_(skipped_before) {}

  // Call after every step, one at a time. Dumps the batches of the first non-finite steps.
  void OnStep(const StepResult& step);

  int64_t num_skipped() const { return num_skipped_; }
  // Returns the messages of OnStep since the last call, one per line. Not while a step runs.
  std::vector<std::string> TakeLines();
  // Returns the skipped steps, the skipped images and the data set's findings, for the end of the
  // run; empty if there are none.
  std::vector<std::string> Summary() const;

 private:
  absl::StatusOr<std::string> Dump(const StepResult& step) const;

  const FaultOptions options_;
  const nn::Model* const model_;
  InputProvider* const inputs_;
  DataLoader* const loader_;
  const int global_batch_;
  int64_t num_skipped_;
  int num_dumped_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_FAULT_WATCH_H_
