"""What the reader refuses: one line with file, line, what is meant and what to do; never a traceback."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from helpers.timing import within

import dae_sdc
from dae_sdc.errors import InputError
from dae_sdc.modelica.reader import read_modelica, read_modelica_text

LIBRARY = Path(dae_sdc.__file__).parent / "problems" / "modelica"
PIN = "connector Pin Real v; flow Real i; end Pin;\n"


def model(body: str, before: str = "") -> str:
    """A model whose first line is line 1 if nothing is before it."""
    return f"{before}model M {body} end M;"


def function(body: str, use: str = "f(1)") -> str:
    """A model that calls a function with this body; line 1 is that of its inputs."""
    return model(f"Real x = {use};", f"function f input Real x; output Real y; {body} end f; ")


# A text, the line that is meant, and words of the message.
REFUSED: list[tuple[str, int, str]] = [
    # What Modelica has and a DAE has not
    (model("\nimport SI = Modelica.Units.SI; Real x = 1;"), 2, "import is not understood"),
    (model("Real x;\nequation\nwhen x > 1 then when x > 2 then\nx = 1; end when;"), 3, "when in a when"),
    (model("Real x;\nequation when x > 1 then\nx = 2; x = 3; end when;"), 3, "gets one value in a branch"),
    (model("Real x[2];\nequation when time > 1 then\nx = {1}; end when;"), 3, "2 variables get 1 values"),
    (model("Real x;\nequation when time > 1 then\nreinit(x); end when;"), 3, "reinit takes a variable and"),
    (model("Real x;\nequation when time > 1 then\nx + 1 = 2; end when;"), 3, "remove one, or write x ="),
    (model("Real x, y; equation\nwhen x > 1 then x = y; y = x; end when;"), 2, "depend on each other"),
    (model("Real x; equation if x > 0 then x=1; else\nwhen x > 1 then x=2; end when; end if;"), 2, "out of"),
    (model("\nBoolean b = x > 1; Real x; equation when time > 1 then b = true; end when;"), 2, "remove one"),
    (model("Real x;\ninitial algorithm\nx := y;"), 3, "no variable or parameter y"),
    (model("Real x; equation\nreinit(x, 1);"), 2, "reinit"),
    (model("Real x; equation\nterminate(\"end\");"), 2, "terminate"),
    (model("Real x; equation x =\npre(x);"), 2, "outside of when-equations one that they assign"),
    (model("Real x; equation\nx = if edge(x) then 1 else 0;"), 2, "a condition is expected here"),
    (model("Real x; equation\nx = delay(x, 1);"), 2, "delay(...)"),
    (model("Boolean b; equation\nb = initial();"), 2, "initial(...)"),
    (model("Real x =\nReal();"), 2, "Real takes 1 argument; got 0"),
    (model("Real x =\nReal(1, 2);"), 2, "Real takes 1 argument; got 2"),
    (model("Real x; initial equation x^2=4; equation der(x)=\nif initial() then 1 else 0;"), 2, "initial()"),
    (model("Real x; equation\nx = if sample(0, 1) then 1 else 0;"), 2, "sample(...)"),
    (model("\ninner Real x;"), 2, "inner is not understood"),
    (model("\nouter Real x;"), 2, "outer is not understood"),
    (model("\nreplaceable Real x;"), 2, "replaceable"),
    (model("A a(\nredeclare Real y = 1);", "model A Real x; end A; "), 2, "redeclare"),
    (model("\nInteger n;"), 2, "n is a variable of type Integer"),
    (model("\nBoolean b;"), 2, "b is a variable of type Boolean"),
    (model("\ntype E = enumeration(a, b); E e;"), 2, "e is a variable of type Integer that nothing"),
    (model("\nenumeration(a, b) e;"), 2, "e is a variable of type enumeration"),
    (model("parameter\nenumeration(a b) e = a;"), 2, ") is missing behind the names of an enumeration"),
    (model("parameter\nStateSelect s; Real x(min=s) = 1;"), 2, "s is an enumeration"),
    (model("\nStateSelect s; Real x = 1;"), 2, "s is a variable of type enumeration"),
    (function('external "C";', "\nf(time)"), 2, "f is an external function"),
    (function('external "C" y = bessel(x);', "\nf(time)"), 2, "f is an external function"),
    (function(""), 1, "gives y no value"),
    (function("output Real z; algorithm y := x;"), 1, "gives z no value"),
    (function("algorithm\nwhile x > 1 loop y := x; end while;", "f(time)"), 2, "the condition of while"),
    (function("algorithm\nif x > 1 then return; end if; y := 1;", "f(time)"), 2, "return depends on an"),
    (function("algorithm y := if x > 1 then 2 else 1;\nassert(x > 2, \"no\");"), 2, "what is asserted"),
    (function("algorithm if x > 1 then y := x; end if;", "f(time)"), 1, "gives y no value"),
    (function("protected Real v[2]; algorithm\nv[3] := x; y := 1;"), 2, "there is no element 3"),
    (model("Real x;\nalgorithm\nx + 1 := 2;"), 3, "this cannot be assigned"),
    (model("Real x; algorithm\nif time > 1 then x := x; return; end if;"), 2, "return depends on an unknown"),
    (model("Integer n; algorithm\nif time > 1 then n := 1; end if;"), 2, "does not give n a value in all"),
    (model("Real x, y;\nequation (x, y) = 2;"), 2, "the results of a function"),
    (function("algorithm\nq := 1;"), 2, "q is no variable"),
    (function("algorithm\nx := 1;"), 2, "x is an input"),
    (function("algorithm y := x;", "\nf(1, 2)"), 2, "1 arguments"),
    (function("algorithm y := x;", "\nf()"), 2, "a value of x"),
    (function("algorithm y := x;", "\nf(z=1)"), 2, "argument z"),
    (function("algorithm y := f(x);"), 1, "too deeply"),
    (model("\nReal x if true;"), 2, "declared with a condition"),
    (model("Real x, y; equation\n(x, y) = f(1);"), 2, "several results"),
    (model("Real x[3]; equation\nx[end + 1] = 1;"), 2, "there is no element 4"),
    (model("\nstream Real x;"), 2, "stream is not understood"),
    ("operator record C Real re; end C;", 1, "operator is not understood"),
    ("\nexpandable connector C Real re; end C;", 2, "expandable is not understood"),
    ("model extends M Real x; end M;", 1, "a class that extends itself"),
    # Names
    (model("Real x, mass; equation x =\nmas;"), 2, "no variable or parameter mas; did you mean mass?"),
    (model("Real x; equation x =\nsinn(x);"), 2, "there is no function sinn; did you mean sin?"),
    (model("Real x; equation x =\nfunny_thing(x);"), 2, "write the function into this file"),
    (model("Real x; equation x =\nx(3);"), 2, "x is a variable and no function"),
    (model("\nRaal x;"), 2, "there is no class Raal; did you mean Real?"),
    (model("\nModelica.Units.SI.Angel x;"), 2, "SI.Angel; did you mean Angle?"),
    (model("\nSI.Qzzz x;"), 2, "there is no class SI.Qzzz; declare it"),
    (model("\nModelica.Electrical.Analog.Basic.Resistor x;"), 2, "there is no class Modelica.Electrical"),
    (model("Real x =\nModelica.Constants.pie;"), 2, "did you mean Modelica.Constants.pi?"),
    (model("Real x =\npi;"), 2, "write Modelica.Constants.pi"),
    (model("Real x(\nstrat=3);"), 2, "no attribute strat; did you mean start?"),
    (model("Real x(\ncolour=3);"), 2, "no attribute colour; known are start"),
    (model("A a(\nxx=3);", "model A Real x; end A; "), 2, "model A has no xx; did you mean x?"),
    (model("extends A(\nxx=3);", "model A Real x; end A; "), 2, "model A has no xx; did you mean x?"),
    (model("A a; equation a.x = 1;\na.z = 2;", "model A Real x; end A; "), 2, "a has no part z"),
    (model("Real x; equation\nx.y = 2;"), 2, "x is a number and has no part y"),
    (model("A a; Real x; equation\nx = a;", "model A Real x; end A; "), 2, "a is a component"),
    (model("Real x;\nReal x;"), 2, "x is declared twice"),
    (model("Real x; parameter Real\nx = 1;"), 2, "x is declared twice"),
    (model("Real 'a b';\nReal 'a,b';"), 2, "are both a_b in a model"),
    (model("A a;\nReal 'a.x';", "model A Real x; end A; "), 2, "'a.x' and a.x of line 1 are both a.x"),
    (model("\nReal '';"), 2, "an empty name"),
    (model("\nReal if;"), 2, "quote the name, it is a keyword"),
    ("model A end A;\nmodel A end A;", 2, "two classes named A"),
    (model("f g;", "function\nf output Real y; algorithm y := 1; end f; "),
     2, "function f cannot be a component"),
    (model("Real x =\nA(1);", "model A Real x; end A; "), 2, "model A is called like a function"),
    (model("Real x =\nf(1);", "function f input Real a; end f; "), 2, "function f has no output"),
    (model("\nextends Real;"), 2, "Real cannot be extended"),
    # Values
    (model("\nparameter Real p = p + 1;"), 2, "p depends on itself"),
    (model("parameter Real p = q,\nq = p;"), 1, "depends on itself: p, q"),
    (model("parameter Real p =\nx; Real x = 1;"), 2, "depends on x, which is no parameter"),
    (model("parameter Real p =\ntime; Real x = 1;"), 2, "depends on t, which is no parameter"),
    (model("constant Real c = d, d =\nc; Real x = c;"), 1, "depends on itself"),
    (model("Real x = P.c;", "package P constant Real c =\nc; end P; "), 1, "c depends on itself"),
    (model("\nconstant Real c; Real x = c;"), 2, "c has no value"),
    (model("parameter Real p; Real x(start=\np) = p;"), 2, "needs a value of parameter p"),
    (model("parameter Integer n =\n2.5; Real x = n;"), 2, "must be an integer; got 2.5"),
    (model("parameter Boolean b =\n3; Real x = 1;"), 2, "must be true or false"),
    (model("final parameter Real p = 1; Real x = p;", "") .replace("M ", "A ").replace("end M", "end A")
     + "\nmodel M A a(\np=2); end M;", 3, "this is final"),
    (model("Real x; equation x =\n1/0;"), 2, "division by zero"),
    (model("Real x; equation x =\n1/(2 - 2);"), 2, "division by zero"),
    (model("Real x; equation x =\n0^(-1);"), 2, "division by zero"),
    (model("Real x; equation x =\nx/(time - time);"), 2, "a division by zero; correct the divisor"),
    (model("Real x; equation x =\n1e999;"), 2, "the number 1e999 is too large"),
    (model("Real x; equation x =\n1e-99999999999;"), 2, "too small"),
    (model("Real x; equation x =\n" + "1" * 5000 + ";"), 2, "too long"),
    (model("Real x; equation x =\n1e300*1e300;"), 2, "too large"),
    (model("Real x; equation x =\n1e-300/1e300;"), 2, "too small"),
    (model("Real x; equation x =\n10^400;"), 2, "too large"),
    (model("Real x; equation x =\n7^100000;"), 2, "too large"),
    (model("Real x; equation x =\nx^1e9;"), 2, "the exponent 1e+09"),
    (model("Real x; equation x =\n(x^1000)^10000;"), 2, "a power of a power"),
    (model("Real x; equation x =\n(-8)^(1/3);"), 2, "no real number"),
    (model("Real x(start=\nlog(0)); equation x = 1;"), 2, "no finite value"),
    (model("Real x(\nmin=2, max=1); equation x = 1;"), 1, "min of x is above max"),
    (model("Real x(\nfixed=3); equation x = 1;"), 2, "must be true or false"),
    (model("Real x(\nunit=3); equation x = 1;"), 2, "must be a string"),
    (model("Real x; equation\n1 = 1;"), 2, "holds always"),
    (model("Real x; equation\n1 = 2;"), 2, "never holds"),
    (model("Real x(start=1, fixed=true) = 1; initial equation\nx = 4;"), 2, "is fixed already"),
    (model("Real x = 1;\nannotation(experiment(StopTime=-1));"), 2, "StartTime <= StopTime"),
    (model("Real x = 1; annotation(\nexperiment(StopTim=1));"), 2, "did you mean StopTime?"),
    (model("Real x = 1; annotation(Documentation(\ninfo=3));"), 2, "must be a string"),
    # Kinds and sizes
    (model("Real x; equation x =\nx > 1;"), 2, "a condition where a number is expected"),
    (model("Real x; equation x = if\nx then 1 else 2;"), 2, "a condition is expected"),
    (model('Real x; equation x =\n"a";'), 2, "a string where a number is expected"),
    (model("Real x[2], y; equation x = {1, 2};\ny = x;"), 2, "one side is an array"),
    (model("Real x[2]; equation\nx = {1, 2, 3};"), 2, "2 and 3 elements"),
    (model("Real x[2]; equation x[1] = 1;\nx[3] = 1;"), 2, "there is no element 3"),
    (model("Real x[2]; equation x[1] = 1;\nx[1.5] = 1;"), 2, "must be an integer; got 1.5"),
    (model("Real x; equation\nx[1] = 1;"), 2, "x is no array"),
    (model("parameter Real p[2] =\n{1, 2, 3}; Real x = p[1];"), 2, "an array of 3 for one of 2"),
    (model("Real x[2](start=\n{1}); equation x = {1, 2};"), 2, "an array of 1 for one of 2"),
    (model("R r[2](R=\n{1, 2, 3});", "model R parameter Real R = 1; end R; "), 2, "an array of 3 for"),
    (model("Real x;\nx = 1;"), 2, "write the word equation before it"),
    (model("Real x =\nModelica.Math.sine(1);"), 2, "did you mean sin?"),
    (model("\nReal x[1000000000];"), 2, "is not from 0 to"),
    (model("\nReal x[1000, 1000];"), 2, "more than 50000"),
    (model("\nReal x[-1];"), 2, "the size -1 of x"),
    (model("\nReal x[:];"), 2, "the size of x is open"),
    (model("Real x; equation\nfor i in 1:1000000000 loop x = i; end for;"), 2, "a range of"),
    (model("Real x; equation\nfor i in 1:9999 loop for k in 1:9999 loop x = i; end for; end for;"),
     2, "more than 50002 equations"),
    (model("Real x; equation\nfor i in 3 loop x = i; end for;"), 2, "an index needs a range"),
    (model("Real x; equation\nfor i loop x = i; end for;"), 2, "the index i has no range"),
    (model("Real x; equation\nfor i in 1:0:3 loop x = i; end for;"), 2, "step 0"),
    (model("Real x; equation x =\nsum({1, x} + {1, 2, 3});"), 2, "different sizes"),
    (model("Real x; equation x =\n{1, x}*{1, 2, 3};"), 2, "sizes do not fit"),
    (model("Real x; equation x =\nsum([1, 2; 3]);"), 2, "different lengths"),
    (model("Real x; equation x =\nsin(x, x);"), 2, "sin takes 1 argument; got 2"),
    (model("Real x; equation x =\nsin(u=x);"), 2, "takes no argument u="),
    (model("Real x; equation x =\nmax(x);"), 2, "max takes 2 arguments"),
    (model("Real x; equation if time > 1 then x = 1;\nend if;"), 1, "without else"),
    (model("Real x; equation\nif time > 1 then x = 1; else x = 2; x = 3; end if;"), 2, "have 1, 2 equations"),
    (model("Real x; equation x =\ndiff(x, y);"), 2, "no variable or parameter y"),
    (model("Real x, y; equation x = y; x =\ndiff(x, y);"), 2, "with respect to time only"),
    # Tables
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(\ntable=[0, 1; 0, 2]); equation T.u = 1;"),
     1, "must increase"),
    (model("\nModelica.Blocks.Tables.CombiTable1Ds T; equation T.u = 1;"), 2, "must have rows of x and y"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(\ntable=[1; 2]); equation T.u = 1;"),
     1, "rows of x and y"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 1; 1, 2],\ncolums={2}); equation T.u = 1;"), 2,
     "did you mean columns?"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 1; 1, 2],\ncolumns={7}); equation T.u = 1;"), 1,
     "there is no element 7"),
    (model("\nModelica.Blocks.Tables.CombiTable1Ds T(tableOnFile=true); equation T.u = 1;"),
     2, "the table NoName in NoName cannot be read"),
    # Connections
    (model("Pin p; equation\nconnect(p, q);", PIN), 3, "no variable or parameter q"),
    (model("Pin p; Real x; equation x = 1;\nconnect(p, x);", PIN), 3, "do not fit"),
    (model("Pin p; Port q; equation\nconnect(p, q);", PIN + "connector Port Real v; end Port; "),
     3, "different variables"),
    (model("A a; Pin p; equation\nconnect(p, a);", PIN + "model A Real v, i; end A; "),
     3, "a is no connector"),
    (model("Pin p; equation connect(p.v,\np.i);", PIN), 2, "only one of them is a flow"),
    (model("\nflow Real i;"), 2, "i is a flow, but M is no connector"),
    (model("Pin p, q; Real x; equation x = 1;\nif x > 0 then connect(p, q); else x = 2; end if;", PIN),
     3, "connect depends"),
    # Classes that never end
    ("model A\nA a; end A;", 1, "contains itself"),
    ("model A B b; end A;\nmodel B A a; end B;", 2, "contains itself"),
    ("model A\nextends A; Real x; end A;", 1, "contains itself"),
    (model("T x;", "type T = S;\ntype S = T;\n"), 1, "is defined by itself"),
    # Spelling
    ("", 1, "there is no class in this text"),
    ("  \n// nothing\n", 3, "there is no class in this text"),
    ("connector C Real v; end C;", 1, "there is no model in this text"),
    (model("Real x;\nequation x = 1;") .replace("end M", "end N"), 2, "end N ends model M of line 1"),
    ("model M Real x;\nequation x = 1;", 2, "end M is missing before the end of the text"),
    ("model M Real x;\nequation x = 1; end M", 2, "; is missing behind the end of a class"),
    (model("Real x\nequation x = 1;"), 2, "; is missing behind a declaration, before equation"),
    (model("Real x; equation\nx = 1 end M;"), 2, "; is missing behind an equation"),
    (model("Real x; equation x = (1 +\n2;"), 2, ") is missing for the bracket of line 1, before ';'"),
    (model("Real x; equation x = 1 +\n2);"), 2, "; is missing behind an equation, before ')'"),
    (model("Real x; equation x = sum({1,\n2);"), 2, "} is missing"),
    (model("Real x; equation x =\n;"), 2, "an expression is missing before ';'"),
    (model("Real x; equation x +\n1;"), 2, "= is missing in an equation"),
    (model("Real x; equation x\n:= 1;"), 2, ":= in an equation; write ="),
    (model("Real x; equation x\n== 1;"), 2, "in an equation") ,
    (model("Real x; equation x =\n2*-x;"), 2, "- behind *"),
    (model("Real x; equation x =\nx**2;"), 2, "** is no operator of Modelica; write ^"),
    (model("Real x; equation x =\nx^2^3;"), 2, "^ behind ^; use brackets"),
    (model("Real x; equation x = if\n1 < x < 2 then 1 else 2;"), 2, "< behind <; use brackets"),
    (model("Real x; equation x = if x > 1 then 2\n;"), 2, "else is missing"),
    (model("Real x; equation if x > 1 then x = 2; else x = 1;\nend for;"), 2, "if is missing"),
    (model("Real x(start=1\n; equation x = 1;"), 2, ") is missing at the end of a modification"),
    (model("Real x(start=1,\nstart=2); equation x = 1;"), 2, "start gets two values"),
    (model("Real x(\nstart); equation x = 1;"), 2, "start gets no value"),
    (model('Real x "never\nends; equation x = 1;'), 1, "a string that begins here never ends"),
    (model("Real x;\n/* never"), 2, "a comment that begins here never ends"),
    (model("Real\n'x; equation x = 1;"), 2, "a quoted name that begins here never ends"),
    (model("Real x; equation x =\n1 § 2;"), 2, "the character § means nothing"),
    (model("Real x; equation x =\n1 \x00 2;"), 2, "the character '\\x00'"),
    (model("Real x = 1; annotation(\nA(b={1, 2));"), 2, "closes another bracket"),
    (model("Real x = 1;\nannotation(A(b=1;"), 2, "never closed"),
    (model("Real x; equation x =\n" + "(" * 150 + "1" + ")" * 150 + ";"), 2, "nested more than 100 deep"),
    (model("Real x; equation x =\n" + "sin(" * 90 + "x" + ")" * 90 + " + x;\n") .replace("+ x;", "+ y;"),
     2, "variable or parameter y"),
    ("model M " + "\n".join(f"model A{k}" for k in range(150)), 100, "nested more than 100 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_what_is_not_understood_is_refused_in_one_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_modelica_text(text, file="wrong.mo", reader="own")
    message = str(caught.value)
    assert message.startswith(f"wrong.mo:{line}: ") and words in message, message
    assert "\n" not in message and len(message) < 300


CONDITIONS = "model C Real x if false; Real y = 1; end C;\n"
# What is wrong in texts with components, with the words of rumoca's messages.
OF_COMPONENTS: list[tuple[str, int, str]] = [
    (model("A a(\nxx=3);", "model A Real x; end A; "), 2, "A has no xx; did you mean x?"),
    (model("extends A(\nxx=3);", "model A Real x = 1; end A; "), 2, "A has no xx; did you mean x?"),
    (model("B b(a(\nR(mim=3)));", "model A parameter Real R = 1; end A; model B A a; end B; "), 2,
     "Real has no mim; did you mean min?"),
    (model("extends B(\na(S=3));", "model A parameter Real R = 1; end A; model B A a; end B; "), 2,
     "A has no S"),
    (model("A a(R=2,\nR=3);", "model A parameter Real R = 1; end A; "), 2, "R gets two values; remove one"),
    (model("A a(\nx.start=3);", "model A Real x = 1; end A; "), 2, "rumoca loses what x.NAME modifies"),
    (model("A a; equation a.x = 1;\na.z = 2;", "model A Real x; end A; "), 2, "reference: 'a.z'"),
    (model("A a; Real x; equation\nx = a;", "model A Real x; end A; "), 2, "expected `Real`, found `A`"),
    (model("A a;\nReal 'a.x';", "model A Real x; end A; "), 1, "unbalanced model"),
    (model("\nextends Real;"), 2, "Real cannot be extended"),
    (model("A a(\np=2);", "model A final parameter Real p = 1; end A; "), 1, "is declared final"),
    (model("R r[2](R=\n{1, 2, 3});", "model R parameter Real R = 1; end R; "), 1, "supplies 3 value(s)"),
    (model("A a; Real x; equation x =\n1/0;", "model A Real y = 1; end A; "), 2, "division by zero"),
    (model("A a; Real x; equation x =\nnoSuch(a.y);", CONDITIONS + "model A Real y = 1; end A; "), 3,
     "unresolved function call: 'noSuch'"),
    (model("A a; Real x; equation x =\n1 + ;", "model A Real y = 1; end A; "), 2,
     "an expression is missing before ';'"),
    (model("Pin q;\nPin q;", PIN), 3, "Duplicate declaration of 'q'"),
    (model("Pin p; Real x; equation x = ;", PIN), 2, "an expression is missing before ';'"),
    (model("A a; /* \u00e4\u00f6\u00fc\u00e4\u00f6 */ Real x;\nequation\nx = delay(a.y, 1);",
           "model A Real y = 1; end A; "), 3, "delay"),
    # Tables
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(\ntable=[0, 1; 0, 2]); equation T.u = 1;"),
     1, "must increase"),
    (model("\nModelica.Blocks.Tables.CombiTable1Ds T; equation T.u = 1;"), 2, "must have rows of x and y"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(\ntable=[1; 2]); equation T.u = 1;"),
     1, "rows of x and y"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 1; 1, 2],\ncolums={2}); equation T.u = 1;"), 2,
     "unknown modifier `colums`"),
    (model("Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 1; 1, 2],\ncolumns={7}); equation T.u = 1;"), 1,
     "there is no element 7"),
    (model("\nModelica.Blocks.Tables.CombiTable1Ds T(tableOnFile=true); equation T.u = 1;"),
     2, "the table NoName in NoName cannot be read"),
    # Connections
    (model("Pin p; equation\nconnect(p, q);", PIN), 3, "unresolved component reference: 'q'"),
    (model("Pin p; Real x; equation x = 1;\nconnect(p, x);", PIN), 2, "'x' must be a connector"),
    (model("Pin p; Port q; equation\nconnect(p, q);", PIN + "connector Port Real v; end Port; "),
     2, "different variables; connect two connectors of one class"),
    (model("A a; B b; equation\nconnect(a.p, b.p);", PIN + "connector Port Real v; flow Real j; end Port;\n"
           "model A Pin p; Real x; equation p.v = x; end A; model B Port p; equation p.v = p.j; end B;\n"), 5,
     "a.p and b.p have different variables"),
    (model("A a; Pin p; equation\nconnect(p, a);", PIN + "model A Real v, i; end A; "), 2, "'A' is a model"),
    (model("Pin p; equation connect(p.v,\np.i);", PIN), 2, "p.v (non-flow) and p.i (flow)"),
    (model("\nflow Real i;"), 2, "cannot have 'flow' prefix outside"),
    (model("Pin p, q; Real x; equation x = 1;\nif x > 0 then connect(p, q); else x = 2; end if;", PIN),
     2, "not allowed inside a if-equation"),
    # Classes that never end, and what is nested too deeply for rumoca
    ("model A\nA a; end A;", 1, "cyclic class instantiation"),
    ("model A B b; end A;\nmodel B A a; end B;", 2, "cyclic class instantiation"),
    ("model A\nextends A; Real x; end A;", 1, "base class not found: `A`"),
    (model("extends A; Real x =\n" + "(" * 150 + "1" + ")" * 150 + ";", "model A end A; "), 2,
     "nested more than 100 deep"),
    (model("extends A; Real x; equation\nfor i in 1:1000000000 loop x = i; end for;", "model A end A; "), 2,
     "a size of 1000000000; at most 50000"),
    (model("\nA a[99999];", "model A Real x = 1; end A; "), 2, "a size of 99999"),
    ("model B end B; model M extends B;\n" + "\n".join(f"model A{k}" for k in range(150)), 101,
     "nested more than 100 deep"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "words"), OF_COMPONENTS, ids=[words for _, _, words in OF_COMPONENTS]
)
def test_what_is_wrong_in_a_text_with_components_is_refused_in_one_line(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_modelica_text(text, file="wrong.mo", reader="rumoca")
    message = str(caught.value)
    assert message.startswith(f"wrong.mo:{line}: ") and words in message, message
    assert "\n" not in message and len(message) < 500


# Files


def test_what_is_no_file_of_modelica_is_refused(tmp_path: Path) -> None:
    binary, folder = tmp_path / "binary.mo", tmp_path / "folder.mo"
    binary.write_bytes(b"\xff\xfe\x00model\x81")
    folder.mkdir()
    for path, words in (
        (tmp_path / "none.mo", "none.mo cannot be read: No such file"),
        (binary, "binary.mo is no text in UTF-8"),
        (folder, "folder.mo cannot be read: Is a directory"),
        (tmp_path / "model.txt", "must end in .mo"),
        (Path("nul\0l.mo"), "cannot be read"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            read_modelica(path)
        assert "\n" not in str(caught.value)


def test_a_class_that_is_not_there_is_refused() -> None:
    text = (
        "package P model Pump Real x = 1; end Pump; end P; package Q model Pump Real y = 1; end Pump; end Q;"
    )
    for name, words in (
        ("Pumpe", "did you mean Pump"),
        ("P.Pum", "did you mean P.Pump"),
        ("Zzz", "there is P.Pump, Q.Pump"),
        ("Pump", "several models"),
    ):
        with pytest.raises(InputError, match=words):
            read_modelica_text(text, file="f.mo", name=name)


# Texts that would take forever, or too much memory or too deep a stack

LARGE = {
    "brackets": model("Real x; equation x = " + "(" * 100000 + "x" + ")" * 100000 + ";"),
    "arrays in arrays": model("Real x; equation x = sum(" + "{" * 5000 + "x" + "}" * 5000 + ");"),
    "chain of parameters, last first": model(
        "parameter Real "
        + "".join(f"p{k} = sin(p{k - 1}), " for k in range(500, 0, -1))
        + "p0 = 1; Real x = p500;"
    ),
    "doubling parameters": model(
        "parameter Real p0 = 1"
        + "".join(f", p{k} = p{k - 1}*exp(p{k - 1})" for k in range(1, 60))
        + "; Real x = p59;"
    ),
    "doubling functions": "".join(
        f"function f{k} input Real x; output Real y; algorithm y := "
        + (f"f{k - 1}(x) + f{k - 1}(2*x)" if k else "sin(x)")
        + f"; end f{k}; "
        for k in range(40)
    )
    + model("Real x = f39(time);"),
    "doubling components": "model A0 Real x = 1; end A0; "
    + "".join(f"model A{k} A{k - 1} a[10]; end A{k}; " for k in range(1, 12))
    + model("A11 a;"),
    "sums of sums": model("Real x = sum(sum(i*k for i in 1:40000) for k in 1:40000);"),
    "products of matrices": model("Real x = sum(ones(200, 200)*ones(200, 200)*ones(200));"),
    "powers of powers": model("Real x = 9^(9^(9^9));"),
    "classes that extend each other": "".join(f"model A{k} extends A{k + 1}; end A{k}; " for k in range(99))
    + "model A99 Real x = 1; end A99; "
    + model("extends A0;"),
}


def refusal(text: str, file: str) -> str:
    """What is said of a text that is refused; empty if it is read."""
    try:
        read_modelica_text(text, file=file, reader="own")
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_text_that_would_take_forever_is_refused(text: str) -> None:
    assert within(20.0, lambda: refusal(text, "large.mo")).startswith("large.mo:1: ")


LONG = {
    "functions": (model("Real x; equation x = " + "sin(" * 95 + "x" + ")" * 95 + ";"), 1),
    "choices": (
        model(
            "Real x = if time < 0 then 0"
            + "".join(f" else if time < {k} then {k}" for k in range(500))
            + " else 3;"
        ),
        1,
    ),
    "terms": (model("Real x = " + " + ".join(f"{k}*time" for k in range(2000)) + ";"), 1),
    "elements": (model("Real x[2000]; equation for i in 1:2000 loop x[i] = i*time; end for;"), 2000),
    "conditions": (
        model("Real x = if " + " and ".join(f"time > {k}" for k in range(500)) + " then 1 else 2;"),
        1,
    ),
    "largest": (model("Real x = max({" + ", ".join(f"{k}*time" for k in range(1000)) + "});"), 1),
}


@pytest.mark.parametrize(("text", "equations"), LONG.values(), ids=LONG)
def test_a_text_that_is_only_long_is_read(text: str, equations: int) -> None:
    found = read_modelica_text(text)
    assert len(found.roots) == equations and str(found)


# Texts that are broken at random

JUNK = [
    *"( ) [ ] { } ; = , . : < ' \" ^ / - + * é \0 %".split(" "),
    *"when end der if then else for loop connect model extends final each algorithm annotation".split(),
    *"parameter Real true time x 0 1e999 1e9".split(),
]


def broken(text: str, rng: random.Random) -> str:
    """A text with a few of its words or characters deleted, doubled, moved or replaced."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        kind = rng.randrange(6)
        begin = at
        while kind < 3 and begin > 0 and text[begin - 1].isalnum():
            begin -= 1
        end = at + 1
        while kind < 3 and end < len(text) and text[end].isalnum():
            end += 1
        word = text[begin:end]
        other = rng.randrange(len(text))
        new = ("", f"{word} {word}", rng.choice(JUNK), "", text[other : other + 5], rng.choice(JUNK))[kind]
        if kind == 3:
            end = min(len(text), begin + rng.randint(1, 200))
        text = text[:begin] + new + text[end:]
        if not text:
            break
    return text


def originals() -> list[str]:
    files = ("slider-crank-2d", "dc-motor", "rlc-circuit", "spring-damper", "heat-transfer")
    found = [(LIBRARY / f"{name}.mo").read_text(encoding="utf-8") for name in files]
    return [*found, *(text for text, _, _ in REFUSED if len(text) > 60)]


def test_what_is_broken_at_random_is_read_or_refused_in_one_line() -> None:
    rng, texts = random.Random(8), originals()
    assert all(texts)
    refused = 0
    for k in range(300):
        text = broken(texts[k % 5] if k < 200 else rng.choice(texts), rng)
        message = within(5.0, partial(refusal, text, "broken.mo"))
        if message:
            refused += 1
            assert message.startswith("broken.mo:") and "\n" not in message, message
            line = int(message.split(":")[1])
            assert 1 <= line <= text.count("\n") + 1
    assert refused > 200


def test_broken_texts_with_components_are_read_or_refused_in_one_line() -> None:
    rng, texts = random.Random(9), [text for text, _, _ in OF_COMPONENTS]
    texts += [text for text in originals() if "connector" in text]
    for _ in range(300):
        text = broken(rng.choice(texts), rng)
        try:
            read_modelica_text(text, file="broken.mo", reader="rumoca")
        except InputError as error:
            line = str(error).removeprefix("broken.mo:").partition(":")[0]
            assert "\n" not in str(error) and 1 <= int(line) <= text.count("\n") + 1, error


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("sum(fill(fill(1, 10000), 10000))", "an array of 100000000 elements; at most 50000 are read"),
        ("size(fill(fill(1, 10000), 10000), 1)", "an array of 100000000 elements"),
        ("sum({fill(1, 10000) for i in 1:10000})", "too much to work out"),
        (f"{'a.' * 200_000}b", "a name of more than 100 parts"),
        (f"der({'a.' * 200_000}b)", "a name of more than 100 parts"),
    ],
)
def test_what_is_too_large_is_refused_before_it_costs(value: str, says: str) -> None:
    text = f"model M\n  Real x;\nequation\n  x = {value};\nend M;\n"
    message = within(5.0, partial(refusal, text, "large.mo"))
    assert message.startswith("large.mo:4: ")
    assert says in message
    assert len(message) < 200
