// Signal files, by which a person or a scheduler controls a run (see core/train/training_loop.h).
// They are placed beside the checkpoints or in the model's folder, as long as that is not replaced.
#ifndef DPIPE_TOOLS_RUN_CONTROL_RUN_SIGNALS_H_
#define DPIPE_TOOLS_RUN_CONTROL_RUN_SIGNALS_H_

#include <functional>
#include <string>

#include "tools/training/training_options.h"

namespace dpipe::tools {

// True if either place has a file of that name. Removes it.
bool TakeRunSignal(const TrainerOptions& options, const char* name);

// Removes all signal files and reports each to `say`: they were meant for an earlier run, or came
// too late for this one. Call it once this run owns the checkpoints' folder, and at the end.
void DropRunSignals(const TrainerOptions& options,
                    const std::function<void(const std::string& line)>& say);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_RUN_SIGNALS_H_
