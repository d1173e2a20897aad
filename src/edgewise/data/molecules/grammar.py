"""The pieces that `demo_table` puts molecules together from, as SMILES.

Totals say what atoms add together, not what each of them adds. So the same groups stand here in many proportions, in
saturated and aromatic rings and in chains: from molecules of aromatic rings alone, each atom's part cannot be told.
"""

# A ring system is entered at its first atom; each {} may carry a branch.
AROMATIC_RINGS = (
    *("c1c{}cc{}cc1", "c1c{}c{}ccc1", "c1ccc{}cc1", "c1cc{}ncc1{}", "c1cc{}cnc1", "c1nc{}cc{}n1", "c1cnc{}cn1"),
    *("c1cc{}sc1{}", "c1sc{}cc1", "c1cc{}oc1", "c1cc{}[nH]c1", "c1nc{}cs1", "c1nc{}co1", "c1cc{}n(C)n1", "c1csc{}n1"),
    *("c1cc{}c2cc{}ccc2c1", "c1cc{}c2ncccc2c1", "c1nccc2cc{}ccc12", "c1c[nH]c2ccc{}cc12", "c1cn(C)c2cc{}ccc12"),
    *("c1nc2cc{}ccc2[nH]1", "c1nc2cc{}ccc2s1", "c1cc2cc{}ccc2o1", "c1sc2ccc{}cc2c1{}", "c1nc{}c2ccccc2n1"),
    *("c1nnc{}n1C", "c1nnc{}s1", "c1cc(=O)c2cc{}ccc2o1", "c1cnc2[nH]cnc2n1"),
    # Fused with a saturated ring
    *("C1COc2ccc{}cc2C1", "C1CCc2cc{}ccc2C1", "C1Cc2ccc{}cc2C1", "N1CCc2cc{}ccc2C1"),
)
# One double bond at most, C=O aside.
SATURATED_RINGS = (
    *("C1CCC{}CC1", "C1CC{}CC1", "C1CC1{}", "C1CC{}C1", "C1CCC{}CCC1", "C1CC=CC{}C1", "C1C=CCC1{}", "C1(C)CCC{}CC1"),
    *("C1CCN{}CC1", "C1CCN{}C1", "C1CN{}C1", "C1CCCN{}C1", "N1CCC{}C1", "N1CCC{}CC1", "N1CC{}C1", "N1CCCCC{}C1"),
    *("N1CCN{}CC1", "N1CCN{}CCC1", "N1CCOCC1", "N1CCOC{}C1", "C1CN{}CCO1", "N1CC{}OC{}C1", "N1CC(C)(C)C1", "N1CCCOCC1"),
    *("C1CCOCC1", "C1CC{}OC1", "C1CCOC1{}", "C1COC1", "C1CO1", "C1COCCO1", "C1OCC{}O1", "C1OCC{}CO1", "C1(C)OCCO1"),
    *("C1OC{}C{}CC1", "C1OC(C)(C)OC1{}", "C1OC{}C(O)C1O", "C1OC{}C(O)C(O)C1O", "C1C(O)CC{}C1O", "C1CN{}CCN1"),
    *("N1C(=O)CC1", "N1CCC{}C1=O", "N1CCCCC1=O", "C1CCC(=O)C{}C1", "C1CCOC1=O", "C1CC(=O)N{}C1", "N1CCN{}CC1=O"),
    *("C1CC2CCC1C2", "C1CC2(CC1)OCCO2", "N1CCC2(CC1)CC2", "C1CCC2CC{}CCC2C1", "C1C2CC3CC1CC(C2)C3", "C1CN2CCC1CC2"),
    *("C12CC{}(C1)C2", "N1CC2(C1)COC2", "C1CC2(C1)CCN{}C2", "C1C2COCC12", "C1CC2CN{}CC2C1", "C1CC2CCC(C1)O2"),
    *("N1CC2CCC(C1)N2", "C1CNCC2(C1)CCN{}C2"),
)
LINKERS = (
    *("", "", "C", "CC", "O", "N", "S", "OC", "CO", "CN(C)", "C(=O)", "C(=O)N", "NC(=O)", "CNC(=O)", "C(=O)NC"),
    *("S(=O)(=O)N", "NS(=O)(=O)", "NC(=O)N", "/C=C/", "/C=C\\", "C#C", "OCC", "CSC", "COC(=O)", "OC(=O)"),
    *("[C@H](C)", "[C@@H](C)N", "[C@H](O)", "N[C@@H](C)C(=O)", "C[C@H](O)C", "[C@@H](F)", "C[NH2+]C", "/C=N/"),
    *("N(C)", "NC", "CNC", "COC", "C(C)(O)", "OCCO", "NCCO", "N[C@@H](CO)C(=O)", "NCCN", "OC[C@@H](O)CN", "N(C)CC"),
    *("N[C@@H](C(C)C)C(=O)", "CCN(C)", "N(C)CCO", "CC(C)(C)", "OC[C@H](C)O", "N[C@@H](CN)C(=O)", "NC[C@H](O)C", "CCO"),
)
SUBSTITUENTS = (
    *("F", "Cl", "Br", "I", "C", "CC", "C(C)C", "C(C)(C)C", "C(F)(F)F", "OC(F)(F)F", "CCl", "C(F)F", "O", "OC"),
    *("OCC", "N", "NC", "N(C)C", "C#N", "C=C", "C#C", "SC", "S(C)(=O)=O", "S(N)(=O)=O", "C(C)=O", "C(=O)OC"),
    *("C(=O)O", "C(N)=O", "C(=O)N(C)C", "NC(C)=O", "[N+](=O)[O-]", "C(=O)[O-]", "C[NH3+]", "C[N+](C)(C)C"),
    *("[C@H](C)O", "[C@@H](C)CC", "[C@H](N)C(=O)O", "C[C@@H](C)O", "O[C@@H](C)C(=O)OC", "CCCC", "OCCO"),
    *("CBr", "CI", "C(Cl)Cl", "C(Cl)(Cl)Cl", "CO", "COC", "C(OC)OC", "C(C)(C)O", "CN", "CN(C)C", "OC(C)C", "CC(C)C"),
    *("OCCOC", "NCCO", "NCCOC", "OCCN", "OCCN(C)C", "NCCN", "CCO", "CCN", "NC(C)C", "N(C)CCO", "C[C@H](O)CO", "CC#N"),
    *("CC(N)=O", "OCCCl", "N(CC)CC", "CCN(C)C", "CC(C)(C)C", "NC(C)(C)C", "C[C@H](N)CO", "CCOC", "NC[C@H](C)O"),
    *("C(C)(C)N", "C(C)(C)CO", "OC[C@@H](O)CO"),
)
# {} is a chain on the charged atom, or one that a branch may replace.
CATIONS = (
    *("{}[n+]1ccn({})c1", "{}[n+]1ccn({})c1C", "{}[n+]1ccccc1", "{}[n+]1cccc(C)c1", "{}[n+]1ccc(C)cc1"),
    *("{}[N+]({})(CC)CC", "{}[N+](C)(C)C", "{}[N+](C)(C)CCO", "{}[NH+](CC)CC", "{}[NH3+]", "{}[N+]1(C)CCCC1"),
    *("{}[N+]1(C)CCCCC1", "{}[N+]1(C)CCOCC1", "{}[P+](CCCC)(CCCC)CCCC", "{}[P+](CC)(CC){}", "{}[S+](C)CC"),
    *("{}n1cc[n+](Cc2ccccc2)c1", "{}[n+]1cccc2ccccc12", "{}[N+]12CCN(CC1)CC2", "{}n1c[n+](C)cn1"),
    *("{}[NH2+]CCO", "{}[NH+](C)CCO", "{}[NH+](CCO)CCO", "{}[N+](C)(CCO)CCO", "{}[N+]1(CCO)CCCC1"),
    *("{}[NH+]1CCOCC1", "{}[NH+]1CCN(C)CC1"),
)
CHAIN_ENDS = (
    *("C", "C", "C", "C", "CO", "COC", "C#N", "C(=O)O", "C=C", "CCl", "C(F)(F)F", "CN", "C(C)C"),
    *("C[C@H](C)O", "C[C@@H](C)CC", "COCCO", "Cc%91ccccc%91", "Cc%91ccc(F)cc%91", "C%91CCCCC%91"),
)
ANIONS = (
    *("F[B-](F)(F)F", "F[P-](F)(F)(F)(F)F", "O=S(=O)([N-]S(=O)(=O)C(F)(F)F)C(F)(F)F", "[Cl-]", "[Br-]", "[I-]"),
    *("CC(=O)[O-]", "O=C([O-])C(F)(F)F", "O=S(=O)([O-])C(F)(F)F", "CS(=O)(=O)[O-]", "N#C[N-]C#N", "N#C[S-]"),
    *("O=[N+]([O-])[O-]", "COS(=O)(=O)[O-]", "CCOS(=O)(=O)[O-]", "O=S(=O)([O-])O", "Cc1ccc(S(=O)(=O)[O-])cc1"),
    *("C[C@H](O)C(=O)[O-]", "C[C@H](N)C(=O)[O-]", "NCC(=O)[O-]", "CC(C)C[C@H](N)C(=O)[O-]", "O=C([O-])c1ccccc1"),
    *("O=C([O-])c1ccccc1O", "O=C1[N-]S(=O)(=O)c2ccccc12", "N#C[B-](C#N)(C#N)C#N", "CCCCCCCC(=O)[O-]", "O=C[O-]"),
    *("O=S(=O)([N-]S(=O)(=O)F)F", "COP(=O)([O-])OC", "N#C[C-](C#N)C#N", "O=C([O-])c1ccc(Cl)cc1", "FC(F)(F)[B-](F)(F)F"),
    *("OCC(=O)[O-]", "COCC(=O)[O-]", "OC[C@H](N)C(=O)[O-]", "O=C([O-])[C@@H]1CCCN1", "OCCS(=O)(=O)[O-]"),
    *("NCCS(=O)(=O)[O-]", "C[C@@H](O)[C@H](N)C(=O)[O-]", "CC(C)[C@H](N)C(=O)[O-]", "CC(C)C(=O)[O-]"),
    *("CCCCOS(=O)(=O)[O-]", "OC[C@@H](O)C(=O)[O-]"),
)
