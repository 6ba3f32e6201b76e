"""Languages: their names, alphabets, stemmers and stop words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache
from threading import Lock

from lagotto.documents import LANGUAGE_TAG
from lagotto.terms.words import LONGEST_WORD, fold, words

SAMPLE = 1_000
"""Characters at the start of a text that decide."""


def alphabet_share(text: str, alphabets: Sequence[str]) -> float:
    """The share of letters that belong to `alphabets`, such as LATIN; 1.0 without any of these."""
    if text.isascii() and "LATIN" in alphabets:
        return 1.0
    names = [unicodedata.name(letter, "") for letter in text[:SAMPLE] if letter.isalpha()]
    if not alphabets or not names:
        return 1.0
    known = sum(name.startswith(tuple(alphabets)) for name in names)
    return known / len(names)


ALPHABETS = {
    "CYRILLIC": ("be", "bg", "kk", "ky", "mk", "mn", "ru", "sr", "tg", "uk"),
    "ARABIC": ("ar", "fa", "ku", "ps", "ur"),
    "CJK": ("ja", "zh"), "HIRAGANA": ("ja",), "KATAKANA": ("ja",), "HANGUL": ("ko",),
    "GREEK": ("el",), "HEBREW": ("he", "yi"), "DEVANAGARI": ("hi", "mr", "ne"), "THAI": ("th",),
    "ARMENIAN": ("hy",), "GEORGIAN": ("ka",), "TAMIL": ("ta",), "BENGALI": ("bn",),
}  # fmt: skip
"""Languages by the alphabet that they are written in, if it is not LATIN only."""

SURE = 3
"""So many different stop words tell the language of a query, if there are twice as many as of any
language that is known; two are in many names."""


def foreign_language(query: str, languages: Collection[str]) -> str | None:
    """The alphabet or the language of a query, if that is clear and none of `languages`."""
    known = {code for code in map(language_of, languages) if code}
    letters = filter(str.isalpha, "" if query.isascii() else query[:SAMPLE])
    names = Counter(unicodedata.name(letter, "").split(" ")[0] for letter in letters)
    alphabet = max(names, key=lambda name: names[name], default="LATIN")
    if alphabet in ALPHABETS:
        return None if known.intersection(ALPHABETS[alphabet]) else alphabet.capitalize()
    query_words = {fold(word) for word in words(query[:SAMPLE])}
    counts = {code: len(query_words & stop_words(code)) for code in (*STOP_WORDS, *known)}
    expected = max((counts.pop(code) for code in known), default=0)
    best = max(counts, key=lambda code: counts[code], default="")
    sure = counts.get(best, 0) >= max(SURE, 2 * expected)
    return NAMES.get(best, best).capitalize() if sure else None


CACHE_SIZE = 2**16
"""Cached words per language."""

RULES = 3
"""The version of the rules, to be raised when the same text gives other terms."""

NORWEGIAN = {"nb": "no", "nn": "no"}


def analyzer_id() -> str:
    """Identifies everything that terms depend on: with another id, indexes must be rebuilt."""
    from Stemmer import version

    return f"terms-{RULES}/snowball-{version()}/unicode-{unicodedata.unidata_version}"


@lru_cache(maxsize=256)
def language_of(tag: str | None) -> str | None:
    """The language of a tag such as `en`, `en-GB` or `de_AT`, in lower case.

    None for what is not a word of ASCII letters: PyStemmer raises for names that are not ASCII.
    """
    code = (tag or "").replace("_", "-").partition("-")[0].strip().lower()
    return NORWEGIAN.get(code, code) if code.isascii() and code.isalpha() else None


@cache
def term_maker(language: str | None) -> Callable[[str], str]:
    """A function from a word to its index term: stemmed if `language` has a stemmer, and folded."""
    from Stemmer import Stemmer

    stem: Callable[[str], str]
    try:
        stem = Stemmer(language or "", 0).stemWord
    except KeyError:
        stem = str
    lock = Lock()  # stemmers are not thread-safe

    @lru_cache(maxsize=CACHE_SIZE)
    def term(word: str) -> str:
        # Stemmers need accents, so fold last.
        stemmed = word
        if not any(map(str.isdigit, word)):
            with lock:
                stemmed = stem(word)
        return fold(stemmed or word)[:LONGEST_WORD]

    return term


UNSTEMMED = "simple"
"""The name of the configuration that does not stem."""

NAMES = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""Languages with a stemmer, by their codes."""

_CODES = {name: code for code, name in NAMES.items()}
_CONFIGURATION = re.compile(r"(?:[A-Za-z_][\w$]*\.)?[A-Za-z_][\w$]*")


def is_language(name: str) -> bool:
    """Whether a name stands for a language; if not, it may be a configuration of a database.

    ValueError for a text that is no name.
    """
    try:
        language_named(name)
    except ValueError:
        if not _CONFIGURATION.fullmatch(name.strip()):
            raise
        return False
    return True


def language_named(name: str) -> str | None:
    """The code of the language `english`, `en` or `en-GB`; None for `simple`, else ValueError."""
    known = name.strip().lower().removeprefix("pg_catalog.")
    if known == UNSTEMMED:
        return None
    if known in _CODES:
        return _CODES[known]
    if LANGUAGE_TAG.fullmatch(known):
        return language_of(known)
    raise ValueError(f"{name!r} is no language; name one as english or en, or {UNSTEMMED} for none")


@cache
def stop_words(language: str | None) -> frozenset[str]:
    """The stop words of a language without accents; empty if there is no list for it."""
    listed = STOP_WORDS.get(language_of(language) or "", "")
    return frozenset(map(fold, words(listed)))


_STOP_WORDS = """
@en a about above after again against ain all am an and any are aren as at be because been before
being below between both but by can cannot could couldn d did didn do does doesn doing don down
during each few for from further had hadn has hasn have haven having he her here hers herself him
himself his how i if in into is isn it its itself just ll m ma may me might mightn more most must
mustn my myself needn no nor not now o of off on once only or other ought our ours ourselves out
over own re s same shall shan she should shouldn so some such t than that the their theirs them
themselves then there these they this those through to too under until up upon us ve very was wasn
we were weren what when where which while who whom whose why will with won would wouldn y you your
yours yourself yourselves
@de aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
auch auf aus bei beim bin bis bist da damit dann das dass daß dein deine deinem deinen deiner deines
dem den denn der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du
durch ein eine einem einen einer eines einige einigem einigen einiger einiges er es etwas euch euer
eure eurem euren eurer eures für gegen gewesen hab habe haben hat hatte hatten hätte hätten hier hin
hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in ins ist ja jede jedem jeden jeder
jedes jene jenem jenen jener jenes jetzt kann kein keine keinem keinen keiner keines können könnte
man manche manchem manchen mancher manches mein meine meinem meinen meiner meines mich mir mit muss
musste müssen nach nicht nichts noch nun nur ob oder ohne sehr sei sein seine seinem seinen seiner
seines seit sich sie sind so solche solchem solchen solcher solches soll sollen sollte sondern sonst
um und uns unser unsere unserem unseren unserer unter viel vom von vor während war waren warst warum
was weil welche welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder will
wir wird wirst wo woher wohin wollen wollte worden wurde wurden würde würden zu zum zur zwar
zwischen über
@fr a ai ait alors après as au aucun aucune aura aurait aussi autre autres aux avaient avais avait
avant avec avez avons ayant c car ce ceci cela celle celles celui ces cet cette ceux chaque chez
comme comment d dans de depuis des donc dont du elle elles en encore entre es est et étaient étais
était étant été être eu eux fut furent il ils j je jusqu jusque l la laquelle le lequel les
lesquelles lesquels leur leurs lorsque lui m ma mais me même mêmes mes moi mon n ne ni nos notre
nous on ont ou où par parce pas pendant peut peuvent plus pour pourquoi puis qu quand que quel
quelle quelles quels qui quoi s sa sans se sera serait ses si soi soient sois soit sommes son sont
sous suis sur t ta tandis te tes toi ton tous tout toute toutes très tu un une vers vos votre vous y
à ça
@es a al algo algún alguna algunas alguno algunos ambos ante antes aquel aquella aquellas aquello
aquellos aquí así aún aunque bajo cada como cómo con contra cual cuál cuales cuáles cualquier cuando
cuándo cuanto cuánto cuánta cuántas cuántos de del desde donde dónde dos durante e el él ella ellas
ello ellos en entonces entre era eran eras eres es esa esas ese eso esos esta está estaba estaban
están estar estas este esto estos estoy fue fueron fui fuimos ha había habían haber han has hasta
hay he hemos la las le les lo los más me mi mí mía mías mientras mío míos mis muy nada ni ningún
ninguna ninguno no nos nosotras nosotros nuestra nuestras nuestro nuestros o os otra otras otro
otros para pero poco por porque pues que qué quien quién quienes quiénes se sea sean según ser será
si sí sido siendo sin sino sobre sois somos son soy su sus suya suyas suyo suyos también tampoco tan
tanto te tenía tengo ti tiene tienen toda todas todo todos tras tu tú tus tuya tuyo un una unas uno
unos usted ustedes vosotras vosotros vuestra vuestras vuestro vuestros y ya yo
@it a abbia abbiamo abbiano ad agli ai al alcun alcuna alcune alcuni alcuno alla alle allo altra
altre altri altro anche ancora avere aveva avevano avuto c che chi ci ciascuna ciascuno ciò coi col
come con contro così cosa cui d da dagli dai dal dall dalla dalle dallo de degli dei del dell della
delle dello di dopo dov dove due durante e è ebbe ed egli era erano essa esse essere essi esso fa
fino fra fu furono gli ha hai hanno ho i il in io l la le lei li lo loro lui m ma me mentre mi mia
mie miei mio molto ne negli nei nel nell nella nelle nello noi non nostra nostre nostri nostro o
ogni oppure per perché però più poi prima può qual quale quali quand quando quanta quante quanti
quanto quel quell quella quelle quelli quello quest questa queste questi questo qui quindi s sarà se
sei senza si sia siamo siano siete solo sono sopra sotto sta stata state stati stato su sua sue
sugli sui sul sull sulla sulle sullo suo suoi t te ti tra tu tua tue tuo tuoi tutta tutte tutti
tutto un una uno v vi voi vostra vostre vostri vostro
@pt a à ainda algo algum alguma algumas alguns ao aos apenas após aquela aquelas aquele aqueles
aquilo as às assim até cada com como contra cuja cujas cujo cujos da daquela daquele das de dela
delas dele deles depois desde dessa dessas desse desses desta destas deste destes do dos durante e é
ela elas ele eles em enquanto então entre era eram és essa essas esse esses esta está estamos estão
estar estas estava estavam este estes estou eu foi fomos for foram fosse há havia isso isto já lhe
lhes logo mais mas me mesmo meu meus mim minha minhas muito na não nas nem nenhum nenhuma nessa
nesse nesta neste no nos nós nossa nossas nosso nossos num numa o onde os ou outra outras outro
outros para pela pelas pelo pelos per perante pode podem pois por porque porquê qual quais quando
quanta quantas quanto quantos que quê quem se seja sejam sem sendo ser será seria seu seus si sido
sob sobre somos sou sua suas também tampouco tão te tem têm tenha tenho ter teu teus teve ti tinha
tinham toda todas todo todos tu tua tuas tudo um uma umas uns você vocês vos vós
@nl aan al alle alles als altijd ander andere ben bij d daar dan dat de der deze die dit doch doen
door dus een eens en er ge geen geweest had hadden heb hebben heeft hem hen het hier hij hoe hun
iemand iets ik in is je jij jou jouw jullie kan kon konden kun kunnen maar me meer men met mij mijn
moet moeten n na naar niet niets nog nu of om omdat ons onze ook op over reeds s t te tegen toch
toen tot tussen u uit uw van vanaf veel voor waar waarom wanneer want waren was wat we weer welk
welke werd werden wie wiens wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou zouden zulk
zulke
@sv all alla allt att av bara blev bli blir blivit de dem den denna deras dess dessa det detta dig
din dina ditt dit du där då efter ej eller en er era ert ett från för genom gör ha hade han hans har
hela henne hennes hon honom hur här i icke in inom inte ja jag ju kan kunde man med mellan men mer
mig min mina mitt mot mycket måste ni nu när någon något några nog och också om oss på samma sedan
sig sin sina sitt själv ska skall skulle som så sådan sådana sådant till under upp ut utan vad var
vara varför varit varje varken vars vart vem vems vi vid vilka vilkas vilken vilket vår våra vårt än
är även åt över
@da ad af alle alt anden andet at blev blive bliver da de dem den denne der deres det dette dig din
dine disse dit dog du efter ej eller en end er et for fordi fra før ham han hans har have havde
hendes hende her hos hun hvad hvem hver hvilke hvilken hvilket hvis hvor hvordan hvorfor hvornår i
igen ikke ind ingen intet jeg jer jeres jo kan kom kun kunne man mange med meget mellem men mig min
mine mit mod må ned noget nogen nogle nu når og også om op os over på sammen samt selv sig sin sine
sit skal skulle som sådan så til ud uden under var ved vi vil ville vor vore vores være været
@no alle alt andre annen annet at av bare ble blei bli blir blitt da de deg dei deim deira deires
dem den denne der dere deres det dette di din disse ditt dit du då eg ei eit eitt eller elles en enn
er et ett etter for fordi fra før ha hadde han hans har henne hennes her hjå ho hoe honom hos hun
hva hvem hver hvilke hvilken hvilket hvis hvor hvordan hvorfor i ikke ikkje ingen inn inni ja jeg
kan kom korleis korso kun kunne kva kvar kven kvifor man mange med medan meg meget mellom men mer
mest mi min mine mitt mot mykje må nei no noe noen noka noko nokon nokre nå når og også om opp oss
over på samme seg selv si sia sidan siden sin sine sitt skal skulle slik so som somme så sånn til um
under upp ut uten var vart vere verte vi vil ville vore vort vår være vært å
@fi ei eivät emme en enkä et ette että eikä hän häneen hänelle hänellä häneltä hänen hänessä hänestä
hänet häntä he heidän heidät heihin heille heillä heiltä heissä heistä heitä itse ja johon joiden
joihin joiksi joilla joille joilta joina joissa joista joita joka joko joksi jolla jolle jolta jona
jonka jos jossa josta jota jotka jotta kanssa keiden keitä kenelle kenen kenet keneltä kenellä
kenessä kenestä keneen ketkä ketä koska kuin kuinka kuitenkin kuka kun kunnes me meidän meidät
meihin meille meillä meiltä meissä meistä meitä mihin mikä miksi mille millä miltä milloin minkä
minua minun minut minuun minulla minulle minulta minussa minusta minä missä mistä miten mitkä mitä
mukaan mutta myös ne nehän niiden niihin niille niillä niiltä niin niissä niistä niitä nuo noiden
noita nyt näiden näihin näissä näistä näitä nämä ole olemme olen olet olette oli olimme olin olisi
olisivat olit olitte olivat olla olleet ollut on ovat poikki saakka se sekä sen siellä siihen siinä
siitä sille sillä siltä sinua sinulla sinulle sinun sinut sinä sitten sitä tai te teidän teille
teillä teitä tuo tuohon tuolla tuon tuossa tuosta tuota tähän tälle tällä tältä tämä tämän tässä
tästä tätä vaan vai vaikka voi voivat vuoksi
@ru а без более больше будем будет будете будешь буду будут бы был была были было быть в вам вами
вас ваш ваша ваше ваши вдоль весь во вокруг вот все всё всего всей всем всеми всему всех всю вся вы
где да даже для до его ее её если есть еще ещё ж же за зачем здесь и из или им ими их к как какая
какие каким каких какого какое какой какую ко когда кого кому которая которого которое которой
котором которому которую которые который которым которыми которых кто куда ли либо лишь между меня
мне мной много может можно мой моя моё мои моего моей моих мы на над надо нам нами нас наш наша наше
наши не него нее неё ней нельзя нет ни нибудь ним ними них но ну о об обо однако он она они оно от
откуда отчего очень перед по под пока после потом потому почему почти при про раз с сам сама сами
само свое своего своей своем своему свои своим своих свой свою своя себе себя сейчас сколько со та
так такая такие такой там твой твоя твоё те тебе тебя тем теми тех то тобой того тоже той только том
тому тот тою ту тут ты у уж уже хотя чего чей чем через что чтоб чтобы чуть чья эта эти этим этими
этих это этого этой этом этому этот эту я
@uk а або адже але аж без більш би б був була були було бути в вам вами вас ваш ваша ваше ваші вже
ви від він вона вони воно все всі всіх всього усе усі усіх де для до є ж же з за зі зараз і й із ії
її їй їм їх їхній його йому к коли кого кому котра котрий ким куди лише між мені мене ми мій моя моє
мої мною може можна на над нам нами нас наш наша наше наші не нею нього неї них ним ні ніж ну о об
один однак оскільки перед під по поки після при про та так така таке такий такі також там те теж
тебе тим тих ти тій то тоді того тож тобі той тому ту тут у хіба хоча хто це цей ці цих цього цим
цій цю ця через чи чий чим чого чому що щоб щодо як яка яке який якими яких якого якої якому якщо
які яку я свій своя своє свої свого своїй своїх своїм собі себе скільки
@pl a aby albo ale ani aż bardzo bez bo być będą będzie by był była było były bym ci cię co coś
czego czemu czy czyj czyja czyje czyli czym dla dlaczego do gdy gdyby gdyż gdzie go i ich ile im
inna inne inny innych iż ja jak jaka jaką jaki jakie jakich jakiego jako jakby je jeden jednak
jednym jedna jego jej jemu jest jestem jeszcze jeśli jeżeli już każda każde każdy kiedy kim kogo
komu kto ktoś która którą które którego której któremu który których którym którymi którzy lecz lub
ma mają mam mi mną mnie moja moje mogą mój może można mu my na nad nam nami nas nasz nasza nasze
nawet nią nic nich nie niego niej niemu nim nimi niż no o obok od ona one oni ono oraz po pod
podczas ponad ponieważ poza przed przede przez przy raz są się skąd sobie swoje swojego swojej swój
ta tą tak taka taki takich takie także tam te tego tej ten też to tobą tobie tu tutaj tę twoja twoje
twój ty tych tylko tym tymi u w was wam wami wasz wasza wasze we więc wszyscy wszystkich wszystkie
wszystko z za zawsze ze znowu żaden żadna żadne że żeby
@cs a aby ačkoli aj ale ani ano asi až bez bude budem budeme budeš budou by byl byla byli bylo byly
bys být během co což či čí do ho i já jak jaká jaké jaký jako jakož je jeho jej její jejich jemu jen
jenž jestli jestliže ještě ji jí jich jim jimi jinak jiné jiný již jsem jsi jsme jsou jste k kam kde
kdo kdy když ke kolik která které kterou který kteří kterého kterém kterých kterým kterými ku má
mají mé mě mezi mi mít mně mnou můj může my mým na nad nám námi nás naš naše naši ne nebo nebyl
nejsou není než ni nic nich ním nimi o od on ona oni ono ony pak po pod podle pokud potom pouze pro
proč proto protože před přes při s se si sice skrz sobě sám sama samo své svůj svou svých svým svými
ta tak také takže tam tato tady te tě tebe tebou teď tedy ten tento této ti tím tímto to tobě toho
tohoto tom tomto tomu tomuto toto tu tuto tvá tvé tvůj ty tyto u už v vám vámi vás váš vaše ve více
však všechen všechno všichni vy z za zda zde ze že
@ro a acea aceasta această aceea acei aceia acel acela acele acelea acest acesta aceste acestea
acestei acestor acestui acești aceștia acolo acum ai aici al ale alt alta altă alte alți altul am ar
are aș așa asta astfel asupra atunci au avea avem aveți avut ca că când care căreia cărora căror
cărui căruia cât câte câți către ce cea cei ceea cel cele celor cine cineva ci cu cui cum cumva da
dacă dar de deci deja deoarece deși despre din dintre doar două după ea ei el ele eram erau este
ești eu fi fie fiecare fiind fost fără iar îi îl îmi în înainte încă încât între își îți la le li
lor lui mă mai mea mei mele meu mi mie mine mult multe mulți ne nici nicio niciun nimic niște
noastră noastre noi nostru noștri nouă nu o ori oricare orice oricine or pe pentru peste până poate
pot prin printre s sa să săi sale sau său se și sînt sunt sub sunteți suntem ta tăi tale tău te ți
ție tine toată toate tot totul toți tu un una unde undeva unei unele unii unor unui unul va vă vi
voastră voastre voi voștri vostru vouă vreo vreun
@hu a abban ahhoz ahogy ahol aki akik akit akkor alatt ami amely amelyek amelyekben amelyeket
amelyet amelynek amíg amikor amit annak arra arról át az azért azok azon azonban azt aztán azután
azzal be belül bár csak de e ebben eddig egy egyes egyik egyéb együtt ehhez ekkor el elég ellen
előtt elő első én engem ennek erre ért és ez ezek ezen ezért ezt ezzel fel felé ha hanem hány hiszen
hogy hogyan hol honnan hova hozzá így ill illetve ilyen ilyenkor is ismét itt jól jobban kell
kellett keresztül ki kinek kit kívül között közül legalább legyen lehet lenne lenni lesz lett maga
magát majd már más másik meg mely melyek melyik mellett mert mi miatt mikor milyen mind minden
mindenki mindent mindig mint mintha miért mit mivel nagyon ne néha neki nekik nem nincs ő ők őket
olyan ott össze pedig persze rá s saját se sem semmi sok sokat során szemben szerint számára te
tehát teljes tovább továbbá több ugyanis utolsó után utána úgy vagy vagyis vagyok valaki valami
valamint való van vannak vele vissza viszont volna volt voltak voltam voltunk
@tr acaba ama ancak artık asla aslında az bana bazen bazı bazıları belki ben benden beni benim beri
bile bir biraz birçoğu birçok biri birkaç birşey biz bizden bize bizi bizim bu buna bunda bundan
bunlar bunları bunların bunu bunun burada bütün böyle çok çünkü da daha dahi de defa değil diye
diğer dolayı eğer en fakat gibi göre hala hangi hangisi hani hatta hem henüz hep hepsi her herhangi
herkes hiç hiçbir için idi ile ise ister itibaren kadar karşın kendi kendine kendini kez ki kim
kimden kime kimi kimin kimse madem mi mı mu mü nasıl ne neden nedenle nerde nerede nereye niye niçin
o olan olarak olup ona ondan onlar onlardan onları onların onu onun orada oysa öyle pek rağmen
sadece sanki sen senden seni senin siz sizden size sizi sizin sonra şayet şey şu şuna şunda şundan
şunları şunu tabii tüm tarafından üzere var ve veya veyahut ya yalnız yani yerine yine yok yoksa
zaten zira
@el α αλλά αν αντί απ από ας αυτά αυτές αυτή αυτήν αυτής αυτό αυτοί αυτόν αυτός αυτού αυτούς αυτών
για γιατί δε δεν διά εάν εγώ εδώ είμαι είμαστε είναι είσαι είσαστε είστε είχα είχαν είχε εκεί εκείνα
εκείνες εκείνη εκείνο εκείνοι εκείνος εκείνους εκείνων εμάς εμένα εμείς εν ένα έναν ένας ενός ενώ
επί εσάς εσείς εσένα εσύ έχει έχεις έχετε έχω έχουμε έχουν ή η ήδη ήμουν ήταν ίσως θα και κάθε
κάποια κάποιο κάποιος κάτι κατά κι με μα μας μετά μέσα μέχρι μη μην μία μια μιας μόνο μου να ο οι
όλα όλες όλη όλο όλοι όλους όλων όμως όπου όπως όσα όσο όταν ότι ου ούτε όχι πάνω πάρα παρά πια πιο
ποια ποιά ποιες ποιο ποιοι ποιόν ποιος ποιός ποιους πολύ πόσα πόσες πόσο πόσοι πότε που πού πρέπει
πριν προς πως πώς σαν σας σε σου στα στη στην στις στο στον στους στων συ τα τι τί της τη την τις το
τον τόσο τότε του τους των υπό ως ώστε
@ar آخر أثناء أحد إذ إذا إذن أصبح ألا إلا التي الذي الذين اللتان اللذان اللاتي اللواتي إلى إليه
إليها أم أما إما أمام أن إن أنا أنت أنتم أنتن أنتما إنه إنها أنه أنها أو أولئك أي أيضا أين أية بأن
بعد بعض بل بلا به بها بهذا بهذه بين بينما تحت تكون تلك تم ثم حتى حول حيث حين خلال دون ذات ذلك ذو سوف
سوى ضد ضمن ظل عبر عدة عدم على عليه عليها عليهم عن عند عندما عنه عنها غير فإن فهو فهي فوق في فيه فيها
فيهم قبل قد كان كانت كانوا كل كلا كم كما كنت كي كيف لا لأن لأنه لدى لدي لذلك لقد لكن لكي لم لماذا لن
له لها لهم لهذا لو لولا ليس ليست لنا ما ماذا متى مثل مع معه معها من منذ منه منها منهم مهما نحن نحو
نفس نفسه نفسها هؤلاء هذا هذان هذه هكذا هل هم هما هن هنا هناك هو هي وإن وأن وفي وقد وكان وكانت ولا
ولكن ولم وما ومن وهذا وهذه وهو وهي يكون يمكن
@id ada adalah adanya adapun agar akan aku amat anda antara apa apabila apakah atas atau bagaimana
bagi bahkan bahwa beberapa begitu belum berapa bisa boleh bukan bukankah dan dapat dari daripada
demi demikian dengan di dia dimana ia ialah ini itu itulah jadi jika jikalau juga kalau kalian kami
kamu kapan karena ke kecuali kemudian kenapa kepada ketika kini kita lagi lah lain lalu maka mana
manakah masih maupun melainkan mengapa merupakan mereka meski meskipun misalnya mu namun nya oleh
olehnya pada padahal para per pernah pula pun saat saja saling sambil sampai sangat saya seakan
seandainya sebab sebagai sebagaimana sebelum sebuah secara sedang sedangkan sehingga sejak sekali
selain selalu selama seluruh semua sendiri seorang seperti sering serta sesuatu sesudah setelah
setiap siapa siapakah suatu sudah supaya tanpa tapi telah tentang terhadap tersebut tetapi tiap
tidak untuk walau walaupun yaitu yakni yang
"""

STOP_WORDS = {entry[:2]: entry[2:] for entry in _STOP_WORDS.split("@")[1:]}
"""Words by the codes of their languages, with accents; `@` and a code begin a list."""
