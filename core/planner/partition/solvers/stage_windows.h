// How many layers a stage of a straight pipeline may take before its device's memory is full.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_

#include <vector>

#include "absl/status/status.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

class StageWindows {
 public:
  // `problem` must be straight; its replicas are kept. O(S L log L) queries of memory.
  explicit StageWindows(const PartitionProblem& problem);

  // Returns the largest end of stage s from layer i that fits and leaves a layer for each later
  // stage; i if there is none.
  int LastEnd(int s, int i) const { return last_end_[s][i]; }
  // Returns the smallest useful end: the last stage takes all remaining layers.
  int FirstEnd(int s, int i) const { return s == num_stages_ - 1 ? num_layers_ : i + 1; }
  // Returns the device's seat with these layers, recomputing if the problem requires it.
  const DeviceSeat& SeatOf(int s, int i, int j) const {
    return j <= last_plain_end_[s][i] ? plain_[s] : again_[s];
  }
  // Returns the error if no partition fits: it names the partition that exceeds a limit by the
  // minimum, and both values.
  absl::Status NothingFitsError() const;

 private:
  int LastThatFits(int s, const DeviceSeat& seat, int i, int last) const;
  bool Fits(int s, const DeviceSeat& seat, LayerRange layers) const;

  const PartitionProblem& problem_;
  const int num_layers_;
  const int num_stages_;
  std::vector<DeviceSeat> plain_, again_;         // by stage
  std::vector<std::vector<int>> last_plain_end_;  // by stage and first layer
  std::vector<std::vector<int>> last_end_;        // by stage and first layer
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_
