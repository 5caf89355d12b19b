// A run's checkpoints: step_00001234 and so on in one folder.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/checkpoint/checkpoint.h"
#include "core/train/checkpoint/checkpoint_reader.h"

namespace dpipe {

// Retention policy: the newest checkpoints are kept, and some forever.
struct CheckpointRetention {
  int keep_last = 3;       // at least 1: the newest complete one is never removed
  int64_t keep_every = 0;  // keeps those at multiples of this many steps; 0: none
};

// One process at a time owns the folder. Not thread-safe, except path().
class CheckpointFolder {
 public:
  // Creates the folder if there is none, locks it until the object is destroyed or the process
  // ends, and removes unfinished checkpoints of earlier processes. Returns FailedPrecondition if
  // another process has it, and Unavailable if the folder cannot be created. The destructor removes
  // an empty folder.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& path);
  // Opens the folder read-only: creates, locks and removes nothing. A folder that does not exist
  // has no checkpoints. Returns FailedPrecondition if another process has it now.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> OpenReadOnly(const std::string& path);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  // Returns the folder of a step's checkpoint.
  std::string PathOf(int64_t step) const;
  // Returns the steps of all checkpoints, complete or not, in increasing order.
  absl::StatusOr<std::vector<int64_t>> Steps() const;

  // Opens the newest complete checkpoint; null if the folder has none at all. Calls `say` for each
  // newer one with the reason why it was skipped. Returns DataLoss if there are some, and none is
  // complete.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenNewest(
      const std::function<void(const std::string&)>& say) const;

  // Renames checkpoints of steps later than `step` ("step_00001234.aside"), so that they are kept
  // but not mistaken for this run's. Call it before a run continues from `step`, which may not be
  // the newest. Returns their paths.
  absl::StatusOr<std::vector<std::string>> SetAsideAfter(int64_t step);
  // Moves all checkpoints, including those set aside, to the folder `other`, which is created and
  // must be on the same file system; the newest is moved last. Call it before another run begins.
  // Returns their number.
  absl::StatusOr<int> MoveAllTo(const std::string& other);

  // Writes the checkpoint of content.info.step by WriteCheckpoint. Returns the bytes written.
  absl::StatusOr<int64_t> Write(const CheckpointContent& content);
  // Removes checkpoints up to step `newest`, which has been written, that `retention` does not
  // keep.
  absl::Status RemoveOld(int64_t newest, const CheckpointRetention& retention);
  // Makes room for `step`: of the checkpoints before it, removes all but the newest complete one
  // and those that `retention` keeps forever. Returns the number removed, 0 if none is complete.
  absl::StatusOr<int> RemoveAllButNewest(int64_t step, const CheckpointRetention& retention);
  // Removes a step's checkpoint.
  absl::Status Remove(int64_t step);

 private:
  CheckpointFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  bool is_read_only() const { return lock_fd_ < 0; }
  absl::Status RemoveUnfinished() const;

  const std::string path_;
  const int lock_fd_;  // negative if read-only
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
