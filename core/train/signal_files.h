// Requests to a run, as files that a user or a scheduler creates in its folder:
//   touch out/train/SAVE_NOW      save a checkpoint and continue
//   touch out/train/STOP          save a checkpoint and end
#ifndef DPIPE_CORE_TRAIN_SIGNAL_FILES_H_
#define DPIPE_CORE_TRAIN_SIGNAL_FILES_H_

#include <string>

namespace dpipe {

inline constexpr char kSaveNowFile[] = "SAVE_NOW";
inline constexpr char kStopFile[] = "STOP";

// True if the file exists. Removes it, so that a request is executed once. A file that cannot be
// removed is ignored: the request would be repeated forever.
bool TakeSignalFile(const std::string& folder, const char* name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_SIGNAL_FILES_H_
