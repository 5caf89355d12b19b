// Saves checkpoints while the training continues.
//
// The state is copied between two steps, which takes as much memory as the state itself, and
// training waits only for the copy. A thread of the lowest priority then writes the copy to disk. A
// save waits for the previous one. If memory is short, saving in the foreground needs no copy.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_SAVER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/train/checkpoint/checkpoint.h"
#include "core/train/checkpoint/checkpoint_folder.h"

namespace dpipe {

// Returns a copy of the state, on a separate CPU device, made by the given number of threads.
// Tensors that are private already are not copied again.
SessionState CopyState(const SessionState& state, int num_threads);

class CheckpointSaver {
 public:
  struct Options {
    CheckpointRetention retention;
    bool in_background = true;
    int copy_threads = 2;
  };
  struct Stats {
    int64_t num_saved = 0;
    int64_t last_step = -1;    // of the last one on disk
    int64_t bytes = 0;         // of the last one
    Nanos total_stall_ns = 0;  // total time for which Save and Wait blocked training
    Nanos last_write_ns = 0;   // duration of the last write
  };

  // `folder` outlives this and is not used by others in the meantime.
  CheckpointSaver(CheckpointFolder* folder, const Options& options)
      : folder_(folder), options_(options) {}
  // Finishes the write in progress.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves a checkpoint. Call it between steps. In the background it returns when the state has been
  // copied. It then returns the error of the previous save, unless Wait has returned it, and the
  // new save is begun nevertheless. An error leaves the existing checkpoints unchanged, except on a
  // full disk: then all but the newest and those kept forever are removed, and the save is retried
  // once.
  absl::Status Save(CheckpointContent content);
  // Blocks until the last save is on disk; returns its error, once.
  absl::Status Wait();

  // Applies to later saves.
  void set_in_background(bool in_background) { options_.in_background = in_background; }

  // Returns messages for the user about finished saves, each once. Call after Wait.
  std::vector<std::string> TakeNotes();

  // Returns statistics, complete after Wait; otherwise they cover finished saves.
  const Stats& stats() const { return stats_; }

 private:
  absl::Status Write(const CheckpointContent& content);
  // True if a retry is worthwhile.
  bool MakeRoom(int64_t step, const absl::Status& full);

  CheckpointFolder* const folder_;
  Options options_;
  Stats stats_;
  // Results of the save in progress; belong to the thread while it runs.
  absl::Status status_;
  std::vector<std::string> notes_;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_SAVER_H_
