// Summarises the data for the user before training begins.
#ifndef DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_
#define DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_

#include <string>
#include <vector>

#include "data/loader.h"
#include "models/tokenizer/tokenizer.h"

namespace dpipe::models {

// Maximum numbers of samples whose headers and captions are read, spread evenly over the data set.
// If the loader has already read all headers, all of them are used.
inline constexpr int kMaxHeadersRead = 1000;
inline constexpr int kMaxCaptionsRead = 10000;

// Returns lines without a trailing newline:
// - how many of the inspected images are cropped and enlarged, and the most extreme ones;
// - how many of the inspected captions the tokenizer cuts, and the longest; left out if `tokenizer`
//   is null;
// - with several sizes, a table of them: samples, share of steps, cropped samples, mean share of
//   the area that is cut off, enlarged samples;
// - how many samples have been skipped so far, with the first, and SampleSource::findings.
std::vector<std::string> DescribeSamples(const DataLoader& loader, const Tokenizer* tokenizer);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_
