#include "models/trainable/data_report.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/count.h"
#include "core/base/text/show.h"
#include "core/report/table.h"
#include "data/order/size_survey.h"
#include "data/sample_source.h"

namespace dpipe::models {
namespace {

// Limits lines to 300 characters.
constexpr size_t kMaxNameBytes = 60;

std::string NameOf(const DataLoader& loader, int32_t index) {
  return ShowText(RelativePath(loader.dataset(), index), kMaxNameBytes);
}

std::string SizeText(ImageSize size) { return absl::StrCat(size.width, " x ", size.height); }

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }

// "512 images", "1000 of 250000 images".
std::string Inspected(int64_t count, int64_t all, const char* thing) {
  return count == all ? Count(all, thing) : absl::StrCat(count, " of ", Count(all, thing));
}

std::vector<int32_t> SpreadEvenly(int32_t size, int32_t max_count) {
  const int64_t count = std::min(size, max_count);
  std::vector<int32_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(static_cast<int32_t>(i * size / count));
  return indices;
}

SizeSurvey Survey(const DataLoader& loader) {
  const SampleSource& data = loader.dataset();
  const bool has_all = !loader.image_sizes().empty();
  const std::vector<int32_t> indices =
      SpreadEvenly(data.size(), has_all ? data.size() : kMaxHeadersRead);
  if (has_all) return SurveySizes(loader.order(), indices, loader.image_sizes());
  std::vector<ImageSize> images(indices.size());
  ReadInParallel(static_cast<int64_t>(indices.size()), [&](int64_t i) {
    // Unreadable samples are reported when they are skipped.
    images[i] = data.LoadImageSize(indices[i]).value_or(ImageSize());
  });
  return SurveySizes(loader.order(), indices, images);
}

// "sizes of 20 images: 12 cropped (at most by 50 % of the area, a.png), 1 enlarged (...)".
std::string SizesText(const DataLoader& loader, const SizeSurvey& survey) {
  const SizeUse& all = survey.all;
  std::string text =
      absl::StrCat("sizes of ", Inspected(all.num_known, all.num_samples, "image"), ": ",
                   all.num_cropped == 0 ? "none" : absl::StrCat(all.num_cropped), " cropped");
  if (all.num_cropped > 0) {
    absl::StrAppend(&text, " (at most by ", Percent(survey.max_cut), " of the area, ",
                    NameOf(loader, survey.most_cropped), ")");
  }
  absl::StrAppend(&text, ", ", all.num_enlarged == 0 ? "none" : absl::StrCat(all.num_enlarged),
                  " enlarged");
  if (all.num_enlarged > 0) {
    absl::StrAppend(&text, " (at most ", absl::StrFormat("%.3g", survey.max_scale), " times, ",
                    NameOf(loader, survey.most_enlarged), " of ",
                    SizeText(survey.most_enlarged_size),
                    "; --data.min_side leaves out small ones)");
  }
  return text;
}

std::vector<std::string> UsesTable(const SizeSurvey& survey) {
  report::Table table({"size", "images", "of steps", "cropped", "cut off", "enlarged"});
  table.SetAlign(0, report::Table::Align::kLeft);
  for (const SizeUse& use : survey.uses) {
    table.AddRow({SizeText(use.size), absl::StrCat(use.num_samples),
                  Percent(static_cast<double>(use.num_samples) / survey.all.num_samples),
                  absl::StrCat(use.num_cropped),
                  Percent(use.num_known == 0 ? 0 : use.sum_cut / use.num_known),
                  absl::StrCat(use.num_enlarged)});
  }
  return absl::StrSplit(table.ToText(), '\n', absl::SkipEmpty());
}

// "captions of 20 images: 3 cut to 77 tokens (the longest, of a.png, has 212)".
std::string CaptionsText(const DataLoader& loader, const Tokenizer& tokenizer) {
  const SampleSource& data = loader.dataset();
  const std::vector<int32_t> indices = SpreadEvenly(data.size(), kMaxCaptionsRead);
  const int max_length = tokenizer.max_length();
  std::vector<int> lengths(indices.size(), 0);
  ReadInParallel(static_cast<int64_t>(indices.size()), [&](int64_t i) {
    const absl::StatusOr<std::vector<std::string>> captions = data.LoadCaptions(indices[i]);
    if (!captions.ok()) return;
    for (const std::string& caption : *captions) {
      lengths[i] = std::max(lengths[i], tokenizer.NumTokens(caption));
    }
  });
  const auto num_cut = std::count_if(lengths.begin(), lengths.end(),
                                     [max_length](int length) { return length > max_length; });
  std::string text = absl::StrCat(
      "captions of ", Inspected(static_cast<int64_t>(indices.size()), data.size(), "image"), ": ");
  if (num_cut == 0) return absl::StrCat(text, "none cut");
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  return absl::StrCat(text, num_cut, " cut to ", max_length, " tokens (the longest, of ",
                      NameOf(loader, indices[longest - lengths.begin()]), ", has ", *longest, ")");
}

}  // namespace

std::vector<std::string> DescribeSamples(const DataLoader& loader, const Tokenizer* tokenizer) {
  const SizeSurvey survey = Survey(loader);
  std::vector<std::string> lines = {SizesText(loader, survey)};
  if (survey.uses.size() > 1) {
    for (std::string& line : UsesTable(survey)) lines.push_back(std::move(line));
    lines.push_back("no image is dropped: the next epoch fills an incomplete batch");
  }
  if (tokenizer != nullptr) lines.push_back(CaptionsText(loader, *tokenizer));
  const std::vector<QuarantinedSample> skipped = loader.Quarantine();
  if (!skipped.empty()) {
    lines.push_back(absl::StrCat(Count(skipped.size(), "image"), " skipped so far, the first: ",
                                 ShowText(skipped.front().ToString(), 200)));
  }
  for (const std::string& finding : loader.dataset().findings()) {
    lines.push_back(absl::StrCat("so far: ", finding));
  }
  return lines;
}

}  // namespace dpipe::models
