// Property: a damaged file is either rejected with a reason, or a valid schedule.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/schedule/file_formats/torch_csv.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::vector<std::string> Originals() {
  std::vector<std::string> texts;
  for (const char* name : {"ZBVZeroBubble", "DualPipeV", "InterleavedZeroBubble_comms"}) {
    const auto text =
        ReadFile(absl::StrCat("core/schedule/file_formats/testdata/torch_", name, ".csv"));
    EXPECT_TRUE(text.ok()) << text.status();
    texts.push_back(*text);
  }
  for (const char* name : {"1f1b", "zb-h2", "interleaved"}) {
    for (bool waits : {false, true}) {
      TorchCsvOptions options;
      options.mode = TorchCsvMode::kWithCommunication;
      options.send_waits = waits;
      texts.push_back(*TorchCsvFromSchedule(*MakeSchedule(name, {3, 3}), options));
    }
    texts.push_back(*TorchCsvFromSchedule(*MakeSchedule(name, {2, 4}), {}));
  }
  return texts;
}

void DamageBytes(RandomStream* stream, std::string* text) {
  const size_t at = stream->NextBelow(static_cast<uint32_t>(text->size()));
  const std::string likely = "0123456789FBIWSENDRCV_,;()\n\r \"";
  const uint32_t kind = stream->NextBelow(4);
  if (kind == 0) {
    text->erase(at, 1 + stream->NextBelow(6));
  } else if (kind == 1) {
    text->insert(at, 1, static_cast<char>(stream->NextBelow(256)));
  } else if (kind == 2) {
    text->insert(at, 1, likely[stream->NextBelow(static_cast<uint32_t>(likely.size()))]);
  } else {
    (*text)[at] = likely[stream->NextBelow(static_cast<uint32_t>(likely.size()))];
  }
}

// Removes, duplicates, swaps or moves whole cells.
void DamageCells(RandomStream* stream, std::string* text) {
  std::vector<std::vector<std::string>> rows;
  for (const auto line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    rows.push_back(absl::StrSplit(line, ','));
  }
  if (rows.empty()) return;
  const auto some_row = [&] { return stream->NextBelow(static_cast<uint32_t>(rows.size())); };
  auto& from = rows[some_row()];
  auto& to = rows[some_row()];
  const uint32_t a = stream->NextBelow(static_cast<uint32_t>(from.size()));
  const uint32_t b = stream->NextBelow(static_cast<uint32_t>(to.size()));
  const uint32_t kind = stream->NextBelow(4);
  const std::string cell = from[a];
  if (kind == 0) {
    from.erase(from.begin() + a);
  } else if (kind == 1) {
    to.insert(to.begin() + b, cell);
  } else if (kind == 2) {
    std::swap(from[a], to[b]);
  } else {
    const uint32_t next = std::min<uint32_t>(a + 1, static_cast<uint32_t>(from.size()) - 1);
    std::swap(from[a], from[next]);
  }
  *text = absl::StrJoin(rows, "\n", [](std::string* out, const std::vector<std::string>& row) {
    absl::StrAppend(out, absl::StrJoin(row, ","));
  });
}

TEST(TorchCsvFuzzTest, DamagedFilesAreRejectedOrValid) {
  const std::vector<std::string> originals = Originals();
  int num_refused = 0, num_read = 0;
  for (int seed = 0; seed < 20000; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    std::string text = originals[stream.NextBelow(static_cast<uint32_t>(originals.size()))];
    const int num_damages = 1 + static_cast<int>(stream.NextBelow(3));
    for (int i = 0; i < num_damages && !text.empty(); ++i) {
      if (stream.NextBelow(2) == 0) {
        DamageBytes(&stream, &text);
      } else {
        DamageCells(&stream, &text);
      }
    }
    const auto schedule = ScheduleFromTorchCsv("fuzz", text);
    if (schedule.ok()) {
      ++num_read;
      ASSERT_TRUE(schedule->Verify().ok()) << "seed " << seed;
      continue;
    }
    ++num_refused;
    ASSERT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
    ASSERT_EQ(schedule.status().message().substr(0, 4), "row ")
        << "seed " << seed << ": " << schedule.status();
  }
  EXPECT_GT(num_refused, 10000);
  EXPECT_GT(num_read, 500);
}

TEST(TorchCsvFuzzTest, RandomBytes) {
  for (int seed = 0; seed < 3000; ++seed) {
    RandomStream stream(seed, 1, 0, RandomPurpose::kTest);
    std::string text(stream.NextBelow(60), '\0');
    for (char& byte : text) byte = static_cast<char>(stream.NextBelow(256));
    EXPECT_FALSE(ScheduleFromTorchCsv("fuzz", text).ok());
  }
}

}  // namespace
}  // namespace dpipe
