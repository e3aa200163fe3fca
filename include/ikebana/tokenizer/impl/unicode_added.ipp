#pragma once
// Holds what newer versions of Unicode than 14 add to general categories.
// scripts/tokenizer/unicode_tables.py writes this file.
namespace ikebana::detail::tokenizer {

// Added to L.
inline constexpr const char unicode_added_L[] =
    "pkHBg6iBCMCjvXzB26BbJW8JC6bB/JJBACABlBBAZABAs/BgBhZABMBhB7nFARFZ68DloHdihDsBy8HAyhJAiBAvuLFlI"
    "9BijBbkHdCAoq0BA2lNtTynJ/iE";
// Added to Lu.
inline constexpr const char unicode_added_Lu[] = "pkHAh6iBBNABAzrZV";
// Added to Ll.
inline constexpr const char unicode_added_Ll[] = "qkHAi6iBANA0sZV/s0BF";
// Added to Lm.
inline constexpr const char unicode_added_Lm[] = "uqjCAgBAw+XCoBBj2c9B9jBA";
// Added to Lo.
inline constexpr const char unicode_added_Lo[] =
    "guhCzB26BDBAyLC6bB/JJBACABlBBAZABAs/BgBhZABMBhB7nFARFZ68DloHdlhDnB08HAyhJAiBA67MalHdCAoq0BA2l"
    "NtTynJ/iE";
// Added to M.
inline constexpr const char unicode_added_M[] =
    "3kCA7iBA6OA60/BEuMDhaA2LIBACABDBEBAOB94CBBAwBGDEXAlnFAGOomLR/6fA8iBD+HB";
// Added to Mn.
inline constexpr const char unicode_added_Mn[] =
    "3kCA2xBA60/BEuMDhaA5LFNABABAOB94CB0BEFABAXAlnFAGOomLLDC/6fA8iBD+HB";
// Added to Mc.
inline constexpr const char unicode_added_Mc[] = "znDAk2hCCHACABDBBBAuaAk/BAwBBIBBAovQC";
// Added to N.
inline constexpr const char unicode_added_N[] = "gqjCJmsCTsoBJ2aJ2uQJ2hDJ27XJmuBT8wEJ3HJ";
// Added to Nd.
inline constexpr const char unicode_added_Nd[] = "gqjCJmsCTsoBJ2aJ2uQJ2hDJ27XJ2/FJ3HJ";
// Added to No.
inline constexpr const char unicode_added_No[] = "g20DT";
// Added to P.
inline constexpr const char unicode_added_P[] = "u6GBvBAuv8BAlzBBBBn5BJ3GAhbM9wTCvkeA";
// Added to Pd.
inline constexpr const char unicode_added_Pd[] = "urjCA";
// Added to Po.
inline constexpr const char unicode_added_Po[] = "u6GBvBA0i+BBBBn5BJ3GAhbM9wTCvkeA";
// Added to S.
inline constexpr const char unicode_added_S[] =
    "nhJCy+CDkPBJA+82BBwzvBvHQzNohKA3ECEE5CA4GJEBzNCPCFAdCLEGAHBKCCAIBNByGkB";
// Added to Sm.
inline constexpr const char unicode_added_Sm[] = "usjCB";
// Added to So.
inline constexpr const char unicode_added_So[] =
    "nhJCy+CDkPBJAwwmDvHQzNohKA3ECEE5CA4GJEBzNCPCFAdCLEGAHBKCCAIBNByGkB";
// Added to Cf.
inline constexpr const char unicode_added_Cf[] = "5htCG";
// Added to Han.
inline constexpr const char unicode_added_Han[] = "55tFA2lNtTynJ/iE";
// Added to w.
inline constexpr const char unicode_added_w[] =
    "yFBFACC4+BA7iBA6OA6tDBg6iBCMCjvXzBs6BlBDEBW8JC3BD/ZC+JJBACABlBBJBACABDBHNBtXT8mBgBPJmYQBoBDEN"
    "K0mFAQVK68DloH5BmgDsBDJl8HAyhJAiBA68GJrxEFlI9BhBAgiBpB2GqB+p0BA2lNtTynJ/iE";

}  // namespace ikebana::detail::tokenizer
