// How far a stage of a straight pipeline may reach before its device's memory is full.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_

#include <vector>

#include "absl/status/status.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

class StageWindows {
 public:
  // `problem` is straight; its replicas are taken as they are. O(S L log L) queries of memory.
  explicit StageWindows(const PartitionProblem& problem);

  // The largest end of stage s from layer i that fits and leaves a layer to each later stage; i if
  // there is none.
  int LastEnd(int s, int i) const { return last_end_[s][i]; }
  // The smallest useful one: the last stage takes all that is left.
  int FirstEnd(int s, int i) const { return s == num_stages_ - 1 ? num_layers_ : i + 1; }
  // The device's seat with these layers: recomputing where the problem says so.
  const DeviceSeat& SeatOf(int s, int i, int j) const {
    return j <= last_plain_end_[s][i] ? plain_[s] : again_[s];
  }
  // Why no partition fits: that which exceeds a limit by least, and by how much.
  absl::Status WhyNone() const;

 private:
  int LastThatFits(int s, const DeviceSeat& seat, int i, int last) const;
  bool Fits(int s, const DeviceSeat& seat, LayerRange layers) const;

  const PartitionProblem& problem_;
  const int num_layers_;
  const int num_stages_;
  std::vector<DeviceSeat> plain_, again_;         // by stage
  std::vector<std::vector<int>> last_plain_end_;  // by stage and first layer
  std::vector<std::vector<int>> last_end_;        // likewise
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STAGE_WINDOWS_H_
