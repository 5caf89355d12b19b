// Wishes to a run, as files that a person or a scheduler makes in its folder:
//   touch out/train/SAVE_NOW      save a checkpoint, and go on
//   touch out/train/STOP          save a checkpoint, and end
#ifndef DPIPE_CORE_TRAIN_SIGNAL_FILES_H_
#define DPIPE_CORE_TRAIN_SIGNAL_FILES_H_

#include <string>

namespace dpipe {

inline constexpr char kSaveNowFile[] = "SAVE_NOW";
inline constexpr char kStopFile[] = "STOP";

// Whether the file is there; it is removed then, so that a wish is granted once. A file that cannot
// be removed is no wish: it would never end.
bool TakeSignalFile(const std::string& folder, const char* name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_SIGNAL_FILES_H_
